#pragma once

// The whole public interface of Strand, but for workflows: they have headers of their own
// (workflow.h, workflows.h, workflow_worker.h, saga.h, workflow_test.h), which not every compiler
// takes (see task.h).

#include <strand/error.h>
#include <strand/ids.h>
#include <strand/json.h>
#include <strand/lease.h>
#include <strand/limits.h>
#include <strand/message.h>
#include <strand/queue.h>
#include <strand/settings.h>
#include <strand/store.h>
#include <strand/time.h>
#include <strand/transaction.h>
