/* How Open MPI finds the component, and rank 0's settings on their way to all ranks: each publishes its own
 * with the addresses that processes exchange in MPI_Init, before communicators are made. */
#include <stdlib.h>

#include "mpi/openmpi/coll_epic.h"
#include "mpi/openmpi/requests.h"
#include "ompi/mca/rte/rte.h"
#include "ompi/proc/proc.h"
#include "opal/mca/pmix/pmix.h"

#define KEY "coll.epic"
enum { kSettingsBytes = 4096 };

/* Whether EPIC is to be used at all; asked for the first communicator, MPI_COMM_WORLD. */
static int configured, usable, is_first;

static void RegisterText(const char* name, const char* help, char** value) {
  *value = NULL;
  (void)mca_base_component_var_register(&mca_coll_epic_component.super.collm_version, name, help,
                                        MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_3,
                                        MCA_BASE_VAR_SCOPE_READONLY, value);
}

static int RegisterParameters(void) {
  CollEpicComponent* const c = &mca_coll_epic_component;
  c->priority = 90;
  (void)mca_base_component_var_register(&c->super.collm_version, "priority", "Priority over other components",
                                        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_9,
                                        MCA_BASE_VAR_SCOPE_READONLY, &c->priority);
  RegisterText("manager", "HOST:PORT of EPIC's manager; EPIC_MANAGER goes before it", &c->manager);
  RegisterText("softnic", "File of the libibverbs to use in place of the system's", &c->softnic);
  RegisterText("softnic_devices", "EPIC_SOFTNIC_DEVICES, which goes before it", &c->softnic_devices);
  RegisterText("softnic_super_frames", "EPIC_SOFTNIC_SUPER_FRAMES, which goes before it",
               &c->softnic_super_frames);
  return OMPI_SUCCESS;
}

/* For softnic, which is loaded later. */
static void Export(const char* name, const char* value) {
  if (value != NULL) (void)setenv(name, value, 0);
}

static int Open(void) {
  static char text[kSettingsBytes];
  size_t size;
  int status;
  /* Tools such as ompi_info open components, too, and speak with nobody. */
  if (opal_pmix.put == NULL || opal_pmix.initialized == NULL || !opal_pmix.initialized()) return OMPI_SUCCESS;
  Export("EPIC_SOFTNIC_DEVICES", mca_coll_epic_component.softnic_devices);
  Export("EPIC_SOFTNIC_SUPER_FRAMES", mca_coll_epic_component.softnic_super_frames);
  size = EpicMpiOwnSettings(mca_coll_epic_component.manager, text, sizeof text);
  OPAL_MODEX_SEND_STRING(status, OPAL_PMIX_GLOBAL, KEY, text, (int32_t)size);
  return status == OPAL_SUCCESS ? OMPI_SUCCESS : OMPI_ERROR;
}

static int Close(void) {
  CollEpicRequestsClose();
  if (configured) EpicMpiFinalize(is_first);
  return OMPI_SUCCESS;
}

static int Init(bool enable_progress_threads, bool enable_mpi_threads) {
  (void)enable_progress_threads;
  (void)enable_mpi_threads;
  return OMPI_SUCCESS;
}

/* What a process of our job has published: text that ends with a zero and is to be freed, or null. */
static char* SettingsOf(uint32_t rank) {
  opal_process_name_t name = *OMPI_PROC_MY_NAME;
  uint8_t* data = NULL;
  int32_t size = 0;
  int status;
  name.vpid = rank;
  OPAL_MODEX_RECV_STRING(status, KEY, &name, &data, &size);
  if (status != OPAL_SUCCESS || size == 0 || data[size - 1] != '\0') {
    free(data);
    return NULL;
  }
  return (char*)data;
}

/* The same on all ranks: a rank that knows nothing of EPIC could not take part in the agreement on a group.
 */
static void Configure(void) {
  char* text = SettingsOf(0);
  configured = 1;
  is_first = OMPI_PROC_MY_NAME->vpid == 0;
  usable = text != NULL && EpicMpiConfigure(text, is_first);
  free(text);
  for (uint32_t rank = 1; usable && rank < ompi_process_info.num_procs; ++rank) {
    text = SettingsOf(rank);
    usable = text != NULL;
    free(text);
    if (!usable && is_first) {
      fprintf(stderr, "EPIC: the MPI's own collectives are used: rank %u has no component \"epic\"\n",
              (unsigned)rank);
    }
  }
}

static int OfOneJob(ompi_communicator_t* comm) {
  for (int rank = 0; rank < ompi_comm_size(comm); ++rank) {
    if (ompi_group_get_proc_name(comm->c_local_group, rank).jobid != OMPI_PROC_MY_NAME->jobid) return 0;
  }
  return 1;
}

static EpicMpiOutside OutsideOf(ompi_communicator_t* comm) {
  if (OMPI_COMM_IS_INTER(comm)) return kEpicMpiInter;
  if (ompi_comm_size(comm) < 2) return kEpicMpiOneRank;
  return OfOneJob(comm) ? kEpicMpiInside : kEpicMpiSeveralJobs;
}

static mca_coll_base_module_t* Query(ompi_communicator_t* comm, int* priority) {
  if (!configured) Configure();
  return usable ? CollEpicQuery(comm, OutsideOf(comm), priority) : NULL;
}

CollEpicComponent mca_coll_epic_component = {
    .super = {.collm_version = {MCA_COLL_BASE_VERSION_2_0_0, .mca_component_name = "epic",
                                MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                                      OMPI_RELEASE_VERSION),
                                .mca_open_component = Open, .mca_close_component = Close,
                                .mca_register_component_params = RegisterParameters},
              .collm_data = {MCA_BASE_METADATA_PARAM_NONE},
              .collm_init_query = Init,
              .collm_comm_query = Query}};
