#include "virtual_host/system/redirect.h"

#include <gtest/gtest.h>

namespace vrank::host {
namespace {

TEST(RedirectTest, KnowsOurLibrariesByAnyPathAndAnyLengthOfVersion) {
  EXPECT_EQ(StandInFor("libcudart.so"), "libcudart.so.13");
  EXPECT_EQ(StandInFor("libcudart.so.13"), "libcudart.so.13");
  EXPECT_EQ(StandInFor("/opt/cuda/lib64/libcudart.so.13.0.96"), "libcudart.so.13");
  EXPECT_EQ(StandInFor("libcuda.so"), "libcuda.so.1");
  EXPECT_EQ(StandInFor("../lib/libcublasLt.so.13"), "libcublasLt.so.13");
  EXPECT_EQ(StandInFor("extras/CUPTI/lib64/libcupti.so"), "libcupti.so.13");
  EXPECT_EQ(StandInFor("libnvidia-ml.so.1"), "libnvidia-ml.so.1");
  EXPECT_EQ(StandInFor("libnccl.so.2"), "libnccl.so.2");
  EXPECT_EQ(StandInFor("nvidia/cudnn/lib/libcudnn.so.9"), "libcudnn.so.9");
  EXPECT_EQ(StandInFor("nvidia/cu13/lib/libcusparse.so.12"), "libcusparse.so.12");
}

TEST(RedirectTest, LeavesOtherLibrariesAndOtherMajorsAlone) {
  EXPECT_EQ(StandInFor("libcudart.so.12"), "");
  EXPECT_EQ(StandInFor("libcudart.so.130"), "");
  EXPECT_EQ(StandInFor("libcudart_static.so"), "");
  EXPECT_EQ(StandInFor("libcudadebugger.so.1"), "");
  EXPECT_EQ(StandInFor("libcudnn_graph.so.9"), "");
  EXPECT_EQ(StandInFor("libm.so.6"), "");
  EXPECT_EQ(StandInFor("/libnccl.so.2/libother.so"), "");
  EXPECT_EQ(StandInFor(""), "");
}

}  // namespace
}  // namespace vrank::host
