#include "incengine/modes/augmented.h"
#include "incengine/modes/mode.h"

namespace epic::engine {

const ModeLogic& AugmentedMode() { return AugmentedLogic(); }

}  // namespace epic::engine
