// UCX takes a device only if it finds the kernel's files of it, and asks verbs for nothing before: without
// them it goes by TCP and says nothing. For a device of softnic UCX finds them, and only UCX does.
#pragma once

#include <span>

#include "softnic/verbs/abi.h"

namespace epic::softnic {

// Whether this is a place in UCX's code.
bool IsUcx(const void* caller);

// UCX finds the files of these devices, which stay for ever, from now on. Says on stderr, once, if that
// cannot be.
void ShowToUcx(std::span<Device* const> devices);

// Whether UCX is in the process and asks librdmacm by itself, to go on without it where it fails.
bool UcxAsksConnectionManager();

}  // namespace epic::softnic
