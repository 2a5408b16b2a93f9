/* Loaded before a rank (LD_PRELOAD): no memory can be registered, as under a low limit of locked memory,
 * which softnic does not need. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_pd;
struct ibv_mr;

struct ibv_mr* ibv_reg_mr(struct ibv_pd* pd, void* at, size_t bytes, int access);
struct ibv_mr* ibv_reg_mr_iova2(struct ibv_pd* pd, void* at, size_t bytes, uint64_t iova, unsigned access);

struct ibv_mr* ibv_reg_mr(struct ibv_pd* pd, void* at, size_t bytes, int access) {
  (void)pd, (void)at, (void)bytes, (void)access;
  errno = ENOMEM;
  return NULL;
}

struct ibv_mr* ibv_reg_mr_iova2(struct ibv_pd* pd, void* at, size_t bytes, uint64_t iova, unsigned access) {
  (void)iova;
  return ibv_reg_mr(pd, at, bytes, (int)access);
}
