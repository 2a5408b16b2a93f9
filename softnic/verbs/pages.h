// The pages that a program registers: that they are there, and may be used as the registration says. Nothing
// is pinned; what the program unmaps later is gone (docs/SOFTNIC.md).
#pragma once

#include <cstddef>

namespace epic::softnic {

// 0 if every page of [begin, begin + length) can be read, and also written if `writes`; then all of them have
// been brought in, as pinning would. EFAULT, as rdma_rxe says it, if one is not mapped, lies behind a file's
// end, or may not be used so; ENOMEM if there is not enough memory for them. Bytes are not changed. length is
// not 0, and the range does not wrap.
int BringInPages(const void* begin, size_t length, bool writes);

// The same on kernels before 5.14, by /proc/self/maps: says what is mapped, and with which rights, but brings
// nothing in and does not know where files end. 0 as well if that file cannot be read.
int LookUpPages(const void* begin, size_t length, bool writes);

}  // namespace epic::softnic
