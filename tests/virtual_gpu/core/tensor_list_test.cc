// Lists of tensors against structures as PyTorch declares them (MultiTensorApply.cuh).

#include <cstddef>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "virtual_gpu/core/tensor_list_name.h"

namespace vrank::gpu {
namespace {

using Kind = TensorList::Kind;

std::string Name(const std::string& list) {
  return "_ZN2at6native55_GLOBAL__N__d25d856e_22_ForeachBinaryOpList_cu_a911ec43"
         "25multi_tensor_apply_kernelINS1_" +
         list + "NS1_14UnaryOpFunctorIfLi2ELi1ELi1EEEJEEEvT_T0_DpT1_";
}

template <int kDepth, int kTensors>
struct Plain {
  const void* addresses[kDepth][kTensors];
  int64_t counts[kTensors];
  unsigned char tensors[320];
  int chunks[320];
  int start;
};
template <typename Scalar, int kDepth, int kTensors>
struct Scalars {
  const void* addresses[kDepth][kTensors];
  int64_t counts[kTensors];
  Scalar scalars[kTensors];
  unsigned char tensors[320];
  int chunks[320];
};
template <int kDepth, int kTensors, int kSteps>
struct Fused {
  const void* addresses[kDepth][kTensors];
  int64_t counts[kTensors];
  const void* steps[kSteps];
  unsigned char tensors[320];
  int chunks[320];
  int start;
};

template <typename List>
void ExpectLayout(const TensorList& list, size_t extra) {
  const auto layout = LayoutOf(list, sizeof(List));
  ASSERT_TRUE(layout.has_value()) << list.depth;
  EXPECT_EQ(layout->counts, offsetof(List, counts));
  EXPECT_EQ(layout->extra, extra);
  EXPECT_EQ(layout->tensors, offsetof(List, tensors));
  EXPECT_EQ(layout->chunks, offsetof(List, chunks));
  EXPECT_EQ(layout->size, sizeof(List));
  EXPECT_FALSE(LayoutOf(list, sizeof(List) + 8).has_value());
}

TEST(TensorListTest, KnowsListsByTheirNames) {
  EXPECT_EQ(ParseTensorList(Name("18TensorListMetadataILi3EEE")).kind, Kind::kPlain);
  EXPECT_EQ(ParseTensorList(Name("18TensorListMetadataILi3EEE")).depth, 3u);
  const TensorList fused =
      ParseTensorList(Name("32FusedOptimizerTensorListMetadataILi4EEE"));
  EXPECT_EQ(fused.kind, Kind::kStepCounts);
  EXPECT_EQ(fused.depth, 4u);
  const TensorList scalars =
      ParseTensorList(Name("28TensorListScalarListMetadataIdLi1EEE"));
  EXPECT_EQ(scalars.kind, Kind::kScalars);
  EXPECT_EQ(scalars.scalar_bytes, 8u);
  for (const char* other :
       {"18TensorListMetadataILi6EEE", "18TensorListMetadataILi3", "9OtherList",
        "28TensorListScalarListMetadataIN3c107complexIdEELi1EEE"})
    EXPECT_EQ(ParseTensorList(Name(other)).kind, Kind::kNone) << other;
  EXPECT_EQ(ParseTensorList("_Z25multi_tensor_apply_kernelv").kind, Kind::kNone);
}

TEST(TensorListTest, LaysThemOutAsCompilersDo) {
  using One = Plain<1, 110>;
  ExpectLayout<One>({Kind::kPlain, 1, 0}, offsetof(One, tensors));
  using Four = Plain<4, 36>;
  ExpectLayout<Four>({Kind::kPlain, 4, 0}, offsetof(Four, tensors));
  using FloatScalars = Scalars<float, 3, 48>;
  ExpectLayout<FloatScalars>({Kind::kScalars, 3, 4}, offsetof(FloatScalars, scalars));
  using DoubleScalars = Scalars<double, 1, 96>;
  ExpectLayout<DoubleScalars>({Kind::kScalars, 1, 8}, offsetof(DoubleScalars, scalars));
  using Adam = Fused<4, 36, 36>;
  ExpectLayout<Adam>({Kind::kStepCounts, 4, 0}, offsetof(Adam, steps));
  using AmsGrad = Fused<5, 30, 30>;
  ExpectLayout<AmsGrad>({Kind::kStepCounts, 5, 0}, offsetof(AmsGrad, steps));
}

// Sizes of the first parameter of such kernels in the wheel of PyTorch 2.15 for
// CUDA 13.
TEST(TensorListTest, KnowsThoseOfLongParameters) {
  const struct {
    TensorList list;
    uint64_t bytes, tensors;
  } kInWheel[] = {
      {{Kind::kPlain, 1, 0}, 25768, 770},      {{Kind::kPlain, 2, 0}, 24200, 448},
      {{Kind::kPlain, 3, 0}, 24200, 336},      {{Kind::kPlain, 4, 0}, 23528, 252},
      {{Kind::kStepCounts, 3, 0}, 26888, 336}, {{Kind::kStepCounts, 4, 0}, 25544, 252},
      {{Kind::kStepCounts, 5, 0}, 25208, 210}, {{Kind::kScalars, 1, 1}, 24864, 672},
      {{Kind::kScalars, 1, 4}, 26880, 672},    {{Kind::kScalars, 1, 8}, 29568, 672},
      {{Kind::kScalars, 2, 4}, 25984, 448},    {{Kind::kScalars, 3, 2}, 24864, 336},
      {{Kind::kScalars, 4, 4}, 24528, 252},    {{Kind::kScalars, 4, 8}, 25536, 252}};
  for (const auto& [list, bytes, tensors] : kInWheel) {
    const auto layout = LayoutOf(list, bytes);
    ASSERT_TRUE(layout.has_value()) << bytes;
    EXPECT_EQ(layout->most_tensors, tensors) << bytes;
    EXPECT_EQ(layout->index_bytes, 2u) << bytes;
  }
}

TEST(TensorListTest, CountsTheTensorsOfALaunch) {
  Plain<2, 64> list = {};
  list.tensors[1] = 1;
  list.tensors[2] = 5;
  list.tensors[3] = 77;  // not used by three blocks
  const auto layout = LayoutOf({Kind::kPlain, 2, 0}, sizeof list);
  ASSERT_TRUE(layout.has_value());
  const auto* bytes = reinterpret_cast<const unsigned char*>(&list);
  EXPECT_EQ(TensorsInUse(*layout, bytes, 1), 1u);
  EXPECT_EQ(TensorsInUse(*layout, bytes, 3), 6u);
  EXPECT_FALSE(TensorsInUse(*layout, bytes, 4).has_value());
  EXPECT_FALSE(TensorsInUse(*layout, bytes, 321).has_value());
}

}  // namespace
}  // namespace vrank::gpu
