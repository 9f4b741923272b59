#pragma once
// The precompiled header of the tests: see pch.h.

#include <iostream>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pch.h"
