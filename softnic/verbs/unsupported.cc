// Symbols that Debian's libibverbs exports and that softnic has nothing behind: providers and old programs
// are linked against them, and would not load without. Whoever calls one is told that it is not supported, in
// the way that the verb has for errors: an errno, or a null pointer or -1 with errno.
#include <fcntl.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>

#include "softnic/verbs/abi.h"

#undef ibv_query_port
#undef ibv_reg_mr

using epic::softnic::Null;

// Functions of the C linkage that are known here by name only; nobody in C++ calls them.
#define RETURNS_ERROR(name) \
  EPIC_VERBS int name() { return EOPNOTSUPP; }
#define RETURNS_NULL(name) \
  EPIC_VERBS void* name() { return Null(EOPNOTSUPP); }
#define RETURNS_MINUS_1(name) \
  EPIC_VERBS int name() {     \
    errno = EOPNOTSUPP;       \
    return -1;                \
  }
#define DOES_NOTHING(name) \
  EPIC_VERBS void name() {}

#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"

// What providers build on: commands to the kernel's uverbs.
RETURNS_ERROR(ibv_cmd_advise_mr)
RETURNS_ERROR(ibv_cmd_alloc_dm)
RETURNS_ERROR(ibv_cmd_alloc_mw)
RETURNS_ERROR(ibv_cmd_alloc_pd)
RETURNS_ERROR(ibv_cmd_attach_mcast)
RETURNS_ERROR(ibv_cmd_close_xrcd)
RETURNS_ERROR(ibv_cmd_create_ah)
RETURNS_ERROR(ibv_cmd_create_counters)
RETURNS_ERROR(ibv_cmd_create_cq)
RETURNS_ERROR(ibv_cmd_create_cq_ex)
RETURNS_ERROR(ibv_cmd_create_flow)
RETURNS_ERROR(ibv_cmd_create_flow_action_esp)
RETURNS_ERROR(ibv_cmd_create_qp)
RETURNS_ERROR(ibv_cmd_create_qp_ex)
RETURNS_ERROR(ibv_cmd_create_qp_ex2)
RETURNS_ERROR(ibv_cmd_create_rwq_ind_table)
RETURNS_ERROR(ibv_cmd_create_srq)
RETURNS_ERROR(ibv_cmd_create_srq_ex)
RETURNS_ERROR(ibv_cmd_create_wq)
RETURNS_ERROR(ibv_cmd_dealloc_mw)
RETURNS_ERROR(ibv_cmd_dealloc_pd)
RETURNS_ERROR(ibv_cmd_dereg_mr)
RETURNS_ERROR(ibv_cmd_destroy_ah)
RETURNS_ERROR(ibv_cmd_destroy_counters)
RETURNS_ERROR(ibv_cmd_destroy_cq)
RETURNS_ERROR(ibv_cmd_destroy_flow)
RETURNS_ERROR(ibv_cmd_destroy_flow_action)
RETURNS_ERROR(ibv_cmd_destroy_qp)
RETURNS_ERROR(ibv_cmd_destroy_rwq_ind_table)
RETURNS_ERROR(ibv_cmd_destroy_srq)
RETURNS_ERROR(ibv_cmd_destroy_wq)
RETURNS_ERROR(ibv_cmd_detach_mcast)
RETURNS_ERROR(ibv_cmd_free_dm)
RETURNS_ERROR(ibv_cmd_get_context)
RETURNS_ERROR(ibv_cmd_modify_cq)
RETURNS_ERROR(ibv_cmd_modify_flow_action_esp)
RETURNS_ERROR(ibv_cmd_modify_qp)
RETURNS_ERROR(ibv_cmd_modify_qp_ex)
RETURNS_ERROR(ibv_cmd_modify_srq)
RETURNS_ERROR(ibv_cmd_modify_wq)
RETURNS_ERROR(ibv_cmd_open_qp)
RETURNS_ERROR(ibv_cmd_open_xrcd)
RETURNS_ERROR(ibv_cmd_poll_cq)
RETURNS_ERROR(ibv_cmd_post_recv)
RETURNS_ERROR(ibv_cmd_post_send)
RETURNS_ERROR(ibv_cmd_post_srq_recv)
RETURNS_ERROR(ibv_cmd_query_context)
RETURNS_ERROR(ibv_cmd_query_device_any)
RETURNS_ERROR(ibv_cmd_query_mr)
RETURNS_ERROR(ibv_cmd_query_port)
RETURNS_ERROR(ibv_cmd_query_qp)
RETURNS_ERROR(ibv_cmd_query_srq)
RETURNS_ERROR(ibv_cmd_read_counters)
RETURNS_ERROR(ibv_cmd_reg_dm_mr)
RETURNS_ERROR(ibv_cmd_reg_dmabuf_mr)
RETURNS_ERROR(ibv_cmd_reg_mr)
RETURNS_ERROR(ibv_cmd_req_notify_cq)
RETURNS_ERROR(ibv_cmd_rereg_mr)
RETURNS_ERROR(ibv_cmd_resize_cq)
RETURNS_ERROR(execute_ioctl)
RETURNS_ERROR(verbs_init_cq)
RETURNS_NULL(_verbs_init_and_alloc_context)
RETURNS_NULL(verbs_open_device)
RETURNS_MINUS_1(ibv_read_ibdev_sysfs_file)
DOES_NOTHING(__verbs_log)
DOES_NOTHING(verbs_set_ops)
DOES_NOTHING(verbs_uninit_context)
// Providers register when they are loaded; there is nothing for them to drive.
DOES_NOTHING(verbs_register_driver_34)
EPIC_VERBS unsigned __ioctl_final_num_attrs() { return 0; }
extern "C" __attribute__((visibility("default"))) bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy = false;

// Sharing objects between processes, device memory, the copies that librdmacm makes of kernel structures.
EPIC_VERBS ibv_context* ibv_import_device(int) { return Null(EOPNOTSUPP); }
EPIC_VERBS ibv_pd* ibv_import_pd(ibv_context*, uint32_t) { return Null(EOPNOTSUPP); }
EPIC_VERBS ibv_mr* ibv_import_mr(ibv_pd*, uint32_t) { return Null(EOPNOTSUPP); }
EPIC_VERBS ibv_dm* ibv_import_dm(ibv_context*, uint32_t) { return Null(EOPNOTSUPP); }
EPIC_VERBS void ibv_unimport_pd(ibv_pd*) {}
EPIC_VERBS void ibv_unimport_mr(ibv_mr*) {}
EPIC_VERBS void ibv_unimport_dm(ibv_dm*) {}
EPIC_VERBS ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int) {
  return Null(EOPNOTSUPP);
}
EPIC_VERBS int ibv_set_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }
EPIC_VERBS int ibv_query_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }
EPIC_VERBS int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }
EPIC_VERBS int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, uint8_t*, uint16_t*) {
  return EOPNOTSUPP;
}
DOES_NOTHING(ibv_copy_ah_attr_from_kern)
DOES_NOTHING(ibv_copy_path_rec_from_kern)
DOES_NOTHING(ibv_copy_path_rec_to_kern)
DOES_NOTHING(ibv_copy_qp_attr_from_kern)
// Memory is the process's own: nothing is pinned that a fork could take away.
EPIC_VERBS int ibv_fork_init() { return 0; }
EPIC_VERBS ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
EPIC_VERBS int ibv_dontfork_range(void*, size_t) { return 0; }
EPIC_VERBS int ibv_dofork_range(void*, size_t) { return 0; }

// There is nothing of ours in sysfs.
EPIC_VERBS const char* ibv_get_sysfs_path() { return "/sys"; }
RETURNS_MINUS_1(ibv_read_sysfs_file)

// The verbs of 2006, for programs that were linked then (IBVERBS_1.0).
#define AS_OF_1_0(kind, name) kind(name##_1_0) __asm__(".symver " #name "_1_0, " #name "@IBVERBS_1.0");
AS_OF_1_0(DOES_NOTHING, ibv_ack_async_event)
AS_OF_1_0(DOES_NOTHING, ibv_ack_cq_events)
AS_OF_1_0(RETURNS_NULL, ibv_alloc_pd)
AS_OF_1_0(RETURNS_ERROR, ibv_attach_mcast)
AS_OF_1_0(RETURNS_ERROR, ibv_close_device)
AS_OF_1_0(RETURNS_NULL, ibv_create_ah)
AS_OF_1_0(RETURNS_NULL, ibv_create_cq)
AS_OF_1_0(RETURNS_NULL, ibv_create_qp)
AS_OF_1_0(RETURNS_NULL, ibv_create_srq)
AS_OF_1_0(RETURNS_ERROR, ibv_dealloc_pd)
AS_OF_1_0(RETURNS_ERROR, ibv_dereg_mr)
AS_OF_1_0(RETURNS_ERROR, ibv_destroy_ah)
AS_OF_1_0(RETURNS_ERROR, ibv_destroy_cq)
AS_OF_1_0(RETURNS_ERROR, ibv_destroy_qp)
AS_OF_1_0(RETURNS_ERROR, ibv_destroy_srq)
AS_OF_1_0(RETURNS_ERROR, ibv_detach_mcast)
AS_OF_1_0(DOES_NOTHING, ibv_free_device_list)
AS_OF_1_0(RETURNS_MINUS_1, ibv_get_async_event)
AS_OF_1_0(RETURNS_MINUS_1, ibv_get_cq_event)
AS_OF_1_0(RETURNS_ERROR, ibv_get_device_guid)
AS_OF_1_0(RETURNS_NULL, ibv_get_device_list)
AS_OF_1_0(RETURNS_NULL, ibv_get_device_name)
AS_OF_1_0(RETURNS_ERROR, ibv_modify_qp)
AS_OF_1_0(RETURNS_ERROR, ibv_modify_srq)
AS_OF_1_0(RETURNS_NULL, ibv_open_device)
AS_OF_1_0(RETURNS_ERROR, ibv_query_device)
AS_OF_1_0(RETURNS_MINUS_1, ibv_query_gid)
AS_OF_1_0(RETURNS_MINUS_1, ibv_query_pkey)
AS_OF_1_0(RETURNS_ERROR, ibv_query_port)
AS_OF_1_0(RETURNS_ERROR, ibv_query_qp)
AS_OF_1_0(RETURNS_ERROR, ibv_query_srq)
AS_OF_1_0(RETURNS_NULL, ibv_reg_mr)
AS_OF_1_0(RETURNS_ERROR, ibv_resize_cq)
DOES_NOTHING(ibv_register_driver_1_1)
__asm__(".symver ibv_register_driver_1_1, ibv_register_driver@IBVERBS_1.1");
