// The kernels live in reduce/, which hosts use too; the engine's modules see them under this name.
#pragma once

#include "reduce/reduce.h"  // IWYU pragma: export
