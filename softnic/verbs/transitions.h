// Which attributes ibv_modify_qp takes, by the states that a queue pair goes from and to, and its type
// (InfiniBand specification 11.2.5.2; the table of Linux, qp_state_table, is the same but for what
// docs/SOFTNIC.md names).
#pragma once

#include <infiniband/verbs.h>

namespace epic::softnic {

// Whether a queue pair of the type, RC, UC or UD, may go so with these attributes: all that the transition
// needs, and no others but those that it may have as well. IBV_QP_STATE in the mask counts for nothing.
bool MayModify(ibv_qp_state from, ibv_qp_state to, ibv_qp_type type, int mask);

}  // namespace epic::softnic
