// Lists the devices twice, opens one and closes it. Built with AddressSanitizer, which looks for lost memory
// at the end.
#include <cstdio>

#include "tests/softnic/verbs_testing.h"

int main() {
  for (int time = 0; time < 2; ++time) {
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    ibv_context* const context = count > 0 ? ibv_open_device(list[0]) : nullptr;
    ibv_free_device_list(list);
    if (context == nullptr || ibv_close_device(context) != 0) return 2;
  }
  std::puts("listed");
  return 0;
}
