#pragma once

// The queue as applications use it, over any store.

#include <strand/body.h>
#include <strand/consumer.h>
#include <strand/dead_letters.h>
#include <strand/message_queue.h>
#include <strand/producer.h>
#include <strand/topics.h>
