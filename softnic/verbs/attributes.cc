// What devices and ports can do, and their GID and P_Key tables.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "softnic/port/gids.h"
#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"
#include "softnic/verbs/device_list.h"

#undef ibv_query_port  // a macro in front of the function below

namespace epic::softnic {
namespace {

// rdma_rxe's; perftest and others take what has it for a NIC without peculiarities.
constexpr uint32_t kVendorId = 0xffffff;
constexpr int kPorts = 1;
constexpr uint64_t kClockKhz = 1'000'000;  // the port's clock counts nanoseconds

// Groups that Linux lets a socket join, unless net.ipv4.igmp_max_memberships says otherwise.
constexpr int kMaxJoined = 20;

ibv_mtu ToMtu(uint32_t bytes) { return static_cast<ibv_mtu>(std::bit_width(bytes) - 8); }

size_t PlacesOf(const std::vector<Ip>& gids) { return std::max(kGidPlaces, gids.size()); }

// What found(gid, or nothing for an empty place) returns, or an errno: the table has no such place, or cannot
// be had.
template <typename Found>
int ErrorOf(ibv_context* context, uint32_t port, uint32_t index, const Found& found) {
  const auto look = [&] {
    if (port != 1) return EINVAL;
    const std::vector<Ip> gids = GidsNow(*Of(context)->device);
    if (index >= PlacesOf(gids)) return EINVAL;
    return found(index < gids.size() && gids[index] != kNoGid ? std::optional(gids[index]) : std::nullopt);
  };
  return Caught(look, [](int error) { return error; });
}

ibv_port_attr PortAttributes(const Context& context) {
  const io::InterfaceState state = context.device->network->State(context.device->interface);
  ibv_port_attr attr{};
  attr.state = state.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = ToMtu(PathMtuOf(*context.device));
  attr.gid_tbl_len = static_cast<int>(PlacesOf(GidsNow(*context.device)));
  attr.port_cap_flags = IBV_PORT_IP_BASED_GIDS;  // not CM_SUP, as rdma_rxe says: there is no such manager
  attr.max_msg_sz = uint32_t{roce::kMaxMessageBytes};
  attr.pkey_tbl_len = 1;
  attr.max_vl_num = 1;
  attr.active_width = 1;               // 1x
  attr.active_speed = 1;               // 2.5 Gbit/s: what an Ethernet port without a known speed says
  attr.phys_state = state.up ? 5 : 2;  // LinkUp, Polling
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  return attr;
}

ibv_device_attr DeviceAttributes(const Context& context) {
  ibv_device_attr attr{};
  std::strncpy(attr.fw_ver, "softnic", sizeof attr.fw_ver - 1);
  attr.node_guid = attr.sys_image_guid =
      GidOf(LinkLocalOf(context.device->interface.mac)).global.interface_id;
  attr.max_mr_size = UINT64_MAX;
  attr.page_size_cap = 0xfffff000;
  attr.vendor_id = kVendorId;
  attr.max_qp = kMaxQp;
  attr.max_qp_wr = kMaxQpWr;
  // Of the memory management extensions verbs has local invalidation and Send with Invalidate; registration
  // by a work request is the kernel's alone.
  attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN |
                          IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                          IBV_DEVICE_MEM_MGT_EXTENSIONS;
  attr.max_sge = attr.max_sge_rd = attr.max_srq_sge = static_cast<int>(roce::kMaxSge);
  attr.max_cq = kMaxQp;
  attr.max_cqe = kMaxCqe;
  attr.max_mr = static_cast<int>(MemoryTable::kMaxRegions);
  attr.max_mw = static_cast<int>(MemoryTable::kMaxWindows);
  attr.max_pd = attr.max_ah = attr.max_srq = kMaxQp;
  attr.max_qp_rd_atom = attr.max_qp_init_rd_atom = kMaxRdAtomic;
  attr.max_res_rd_atom = kMaxQp * kMaxRdAtomic;
  // More than it says: they are atomic for the program's own processors as well. But programs, and the other
  // devices that there are, say this.
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_mcast_grp = kMaxJoined;
  attr.max_mcast_qp_attach = kMaxQp;  // to one group
  attr.max_total_mcast_qp_attach = kMaxQp * static_cast<int>(roce::kMaxMulticastGroups);
  attr.max_srq_wr = kMaxSrqWr;
  attr.max_pkeys = 1;
  attr.local_ca_ack_delay = 15;
  attr.phys_port_cnt = kPorts;
  return attr;
}

ibv_gid_entry GidEntry(ibv_context* context, Ip gid, uint32_t index) {
  return {.gid = GidOf(gid),
          .gid_index = index,
          .port_num = 1,
          .gid_type = IBV_GID_TYPE_ROCE_V2,
          .ndev_ifindex = Of(context)->device->interface.index};
}

}  // namespace

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t bytes) {
  if (port != 1) return EINVAL;
  const auto query = [&] {
    const ibv_port_attr full = PortAttributes(*Of(context));
    std::memset(attr, 0, bytes);
    std::memcpy(attr, &full, std::min(bytes, sizeof full));
    return 0;
  };
  return Caught(query, [](int error) { return error; });
}

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                  size_t bytes) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (bytes < sizeof attr->orig_attr) return EINVAL;
  ibv_device_attr_ex full{};
  full.orig_attr = DeviceAttributes(*Of(context));
  full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
  full.completion_timestamp_mask = UINT64_MAX;
  full.hca_core_clock = kClockKhz;
  full.phys_port_cnt_ex = kPorts;
  // Programs of old know a structure that ends sooner.
  std::memset(attr, 0, bytes);
  std::memcpy(attr, &full, std::min(bytes, sizeof full));
  return 0;
}

}  // namespace epic::softnic

using namespace epic::softnic;
using epic::Ip;

namespace {

int Minus1(int error) {
  errno = error;
  return -1;
}

}  // namespace

EPIC_VERBS int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  *attr = DeviceAttributes(*Of(context));
  return 0;
}

// Programs of old know a structure that ends before port_cap_flags2.
EPIC_VERBS int ibv_query_port(ibv_context* context, uint8_t port, struct _compat_ibv_port_attr* attr) {
  return QueryPort(context, port, reinterpret_cast<ibv_port_attr*>(attr),
                   offsetof(ibv_port_attr, port_cap_flags2));
}

EPIC_VERBS int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  const int error = ErrorOf(context, port, static_cast<uint32_t>(index), [gid](std::optional<Ip> ip) {
    *gid = ip ? GidOf(*ip) : ibv_gid{};
    return 0;
  });
  return error == 0 ? 0 : Minus1(error);
}

EPIC_VERBS int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                                 uint32_t flags, size_t entry_bytes) {
  if (flags != 0 || entry_bytes < sizeof *entry) return EINVAL;
  return ErrorOf(context, port, index, [&](std::optional<Ip> ip) {
    if (!ip) return ENODATA;
    *entry = GidEntry(context, *ip, index);
    return 0;
  });
}

EPIC_VERBS ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries,
                                        uint32_t flags, size_t entry_bytes) {
  return Caught(
      [&]() -> ssize_t {
        const std::vector<Ip> gids = GidsNow(*Of(context)->device);
        const auto count = gids.size() - static_cast<size_t>(std::ranges::count(gids, kNoGid));
        if (flags != 0 || entry_bytes < sizeof *entries || max_entries < count) return -EINVAL;
        char* out = reinterpret_cast<char*>(entries);
        for (uint32_t i = 0; i < gids.size(); ++i) {
          if (gids[i] == kNoGid) continue;
          const ibv_gid_entry entry = GidEntry(context, gids[i], i);
          std::memcpy(out, &entry, sizeof entry);
          out += entry_bytes;
        }
        return static_cast<ssize_t>(count);
      },
      [](int error) -> ssize_t { return -error; });
}

// For ibv_devinfo; the enumeration is not ibv_gid_type's: 0 InfiniBand or RoCE v1, 1 RoCE v2.
EPIC_VERBS int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index, int* type) {
  const int error = ErrorOf(context, port, index, [type](std::optional<Ip> ip) {
    *type = ip ? 1 : 0;
    return 0;
  });
  return error == 0 ? 0 : Minus1(error);
}

EPIC_VERBS int ibv_query_pkey(ibv_context*, uint8_t port, int index, __be16* pkey) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = epic::roce::kDefaultPkey;  // the same in both byte orders
  return 0;
}

EPIC_VERBS int ibv_get_pkey_index(ibv_context*, uint8_t port, __be16 pkey) {
  if (port == 1 && pkey == epic::roce::kDefaultPkey) return 0;
  errno = EINVAL;
  return -1;
}
