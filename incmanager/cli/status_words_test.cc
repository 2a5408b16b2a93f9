#include "incmanager/cli/status_words.h"

#include <gtest/gtest.h>

namespace epic::manager {
namespace {

TEST(StatusWordsTest, WhatGrpcSaysByItselfIsPutInWords) {
  const grpc::Status refused = InWords({grpc::UNAVAILABLE, "connect: Connection refused"});
  EXPECT_EQ(refused.error_message(), "nothing listens there (connection refused)");
  const grpc::Status broken = InWords({grpc::UNAVAILABLE, "Socket closed"});
  EXPECT_EQ(broken.error_message(), "it has ended, or the connection has broken (Socket closed)");
  const grpc::Status ended = InWords({grpc::CANCELLED, "CANCELLED"});
  EXPECT_EQ(ended.error_code(), grpc::UNAVAILABLE) << "no manager answers any more";
  EXPECT_EQ(ended.error_message(), "it has ended while it was asked");
  const grpc::Status silent =
      InWords({grpc::FAILED_PRECONDITION, "the agent of leaf1 does not answer: Deadline Exceeded"});
  EXPECT_EQ(silent.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(
      silent.error_message(),
      "the agent of leaf1 does not answer: it is stopped, or nothing passes between it and the manager");
}

TEST(StatusWordsTest, WhatTheManagerSaysStays) {
  EXPECT_TRUE(InWords(grpc::Status::OK).ok());
  for (const grpc::StatusCode code : {grpc::NOT_FOUND, grpc::UNAVAILABLE, grpc::DEADLINE_EXCEEDED}) {
    const grpc::Status status = InWords({code, "leaf1: in its own words"});
    EXPECT_EQ(status.error_code(), code);
    EXPECT_EQ(status.error_message(), "leaf1: in its own words");
  }
}

}  // namespace
}  // namespace epic::manager
