#include "base/grpc/host_name.h"

#include <gtest/gtest.h>
#include <netdb.h>

#include <string>
#include <vector>

namespace {

// What the C library's functions below do.
struct Resolver {
  int begins = 0;                  // getaddrinfo_a
  std::vector<int> says;           // gai_error, one after the other; the last one stays
  int cancels = EAI_ALLDONE;       // gai_cancel
  std::vector<std::string> asked;  // for which hosts
  int suspended = 0;
  int freed = 0;
  gaicb* request = nullptr;
};
Resolver resolver;

}  // namespace

// In front of the C library's.
extern "C" {

int getaddrinfo_a(int, gaicb** requests, int, sigevent*) {
  resolver.asked.emplace_back(requests[0]->ar_name);
  resolver.request = requests[0];
  return resolver.begins;
}

int gai_error(gaicb*) __THROW {
  const int error = resolver.says.front();
  if (resolver.says.size() > 1) resolver.says.erase(resolver.says.begin());
  return error;
}

int gai_suspend(const gaicb* const*, int, const timespec*) {
  ++resolver.suspended;
  return EAI_INTR;
}

int gai_cancel(gaicb*) __THROW { return resolver.cancels; }

void freeaddrinfo(addrinfo*) __THROW { ++resolver.freed; }

}

namespace epic {
namespace {

// What FindHost says if the resolver is so.
std::string Said(const std::string& address, const Resolver& as,
                 std::chrono::nanoseconds timeout = std::chrono::hours(1)) {
  resolver = as;
  const Status status = FindHost(address, timeout);
  return status.ok() ? "found" : status.ToString();
}

TEST(FindHostTest, NothingIsAskedForWhatIsNoName) {
  for (const char* address : {"unix:/run/epic/host.sock", "[fd00::1]:7400"}) {
    EXPECT_EQ(Said(address, {}), "found");
    EXPECT_TRUE(resolver.asked.empty()) << address;
  }
}

TEST(FindHostTest, AHostThatIsKnownIsFound) {
  EXPECT_EQ(Said("manager.fabric:7400", {.says = {EAI_INPROGRESS, EAI_INPROGRESS, 0}}), "found");
  EXPECT_EQ(resolver.asked, std::vector<std::string>{"manager.fabric"}) << "without the port";
  EXPECT_EQ(resolver.suspended, 2) << "until it has an answer";
  EXPECT_EQ(resolver.freed, 1);
}

TEST(FindHostTest, OneThatNobodyKnowsIsNamed) {
  for (const int error : {EAI_NONAME, EAI_NODATA}) {
    EXPECT_EQ(Said("nosuch:7400", {.says = {error}}), "NOT_FOUND: this machine knows no host nosuch");
    EXPECT_EQ(resolver.freed, 0);
  }
}

TEST(FindHostTest, ThatNobodyCanBeAskedIsNotThatNobodyKnowsIt) {
  EXPECT_EQ(Said("far:7400", {.says = {EAI_AGAIN}}),
            "UNAVAILABLE: the host far cannot be looked up now: " + std::string(gai_strerror(EAI_AGAIN)));
  EXPECT_EQ(Said("far:7400", {.begins = EAI_MEMORY, .says = {0}}),
            "UNAVAILABLE: the host far cannot be looked up now: " + std::string(gai_strerror(EAI_MEMORY)));
}

TEST(FindHostTest, AnAnswerThatDoesNotComeIsNotWaitedForLonger) {
  const std::string late = "UNAVAILABLE: the host far cannot be looked up now: no answer in time";
  EXPECT_EQ(Said("far:7400", {.says = {EAI_INPROGRESS, EAI_CANCELED}}, std::chrono::nanoseconds(0)), late);
  // The resolver's thread is still at it: what it reads and writes stays.
  EXPECT_EQ(Said("far:7400", {.says = {EAI_INPROGRESS}, .cancels = EAI_NOTCANCELED},
                 std::chrono::nanoseconds(0)),
            late);
  EXPECT_STREQ(resolver.request->ar_name, "far");
}

TEST(FindHostTest, OfAListAllAreNamed) {
  resolver = {.says = {EAI_NONAME, EAI_NONAME, 0, 0, EAI_AGAIN}};  // each is looked at twice
  const Status status = FindHosts("a:7400,b:7400,c:7400", std::chrono::hours(1));
  EXPECT_EQ(status.ToString(),
            "NOT_FOUND: this machine knows no host a; the host c cannot be looked up now: " +
                std::string(gai_strerror(EAI_AGAIN)));
  resolver = {.says = {0}};
  EXPECT_TRUE(FindHosts("a:7400,b:7400", std::chrono::hours(1)).ok());
}

}  // namespace
}  // namespace epic
