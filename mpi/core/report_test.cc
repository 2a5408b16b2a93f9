#include "mpi/core/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace epic::mpi {
namespace {

using testing::ElementsAre;

TEST(ReportTest, NothingIsNoLine) { EXPECT_TRUE(Report().Lines().empty()); }

TEST(ReportTest, CallsAndBytesByCollectiveAndWay) {
  Report report;
  const int switches = report.WayOf("by EPIC, through the switches");
  const int hosts = report.WayOf("by EPIC, between the hosts");
  EXPECT_EQ(report.WayOf("by EPIC, through the switches"), switches);
  EXPECT_NE(hosts, switches);
  report.Add(kEpicMpiBarrier, switches, 0);
  report.Add(kEpicMpiAllreduce, hosts, 8);
  report.Add(kEpicMpiAllreduce, switches, 100);
  report.Add(kEpicMpiAllreduce, switches, 50);
  report.Add(kEpicMpiAllreduce, report.WayOf(Reason::kType), 7);
  EXPECT_THAT(report.Lines(),
              ElementsAre("MPI_Allreduce: 1 call, 7 bytes: the MPI's own, a type that EPIC does not reduce",
                          "MPI_Allreduce: 2 calls, 150 bytes: by EPIC, through the switches",
                          "MPI_Allreduce: 1 call, 8 bytes: by EPIC, between the hosts",
                          "MPI_Barrier: 1 call, 0 bytes: by EPIC, through the switches"));
}

}  // namespace
}  // namespace epic::mpi
