// Inference is right or refuses; it is never wrong.
//
// Random layouts, parents, real ranks and ways in which programs compute colours and
// keys. The truth comes from applying NCCL's rule to the calls of all members.

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "graph/membership/deciding_rank.h"
#include "graph/membership/membership_inference.h"
#include "graph/membership/real_rank_choice.h"

namespace vrank::graph {
namespace {

using Groups = std::vector<std::vector<uint32_t>>;
using Random = std::mt19937;

int32_t Below(Random& random, int32_t limit) {
  return static_cast<int32_t>(random() % static_cast<uint32_t>(limit));
}

Layout RandomLayout(Random& random) {
  static const char* const kNames[] = {"tp", "cp", "dp", "pp"};
  std::string text;
  std::string order;
  int32_t world = 1;
  std::vector<int> names = {0, 1, 2, 3};
  std::shuffle(names.begin(), names.end(), random);
  for (int name : names) {
    const int32_t sizes[] = {1, 2, 2, 3, 4, 8};
    int32_t size = sizes[Below(random, 6)];
    size = world * size > 128 ? 1 : size;
    text += std::string(kNames[name]) + "=" + std::to_string(size) + ",";
    order += std::string(order.empty() ? "" : "-") + kNames[name];
    world *= size;
  }
  return *Layout::Parse(text + "order=" + order, world);
}

// How a program groups and numbers, written independently of the code under test.
struct Program {
  DimensionSet set = 0;
  int color_style = 0;
  int key_style = 0;
  std::vector<size_t> color_order;
  std::vector<size_t> key_order;
  std::vector<bool> stage_joins;

  static Program Draw(const Layout& layout, DimensionSet varying, Random& random) {
    Program program;
    program.set = random() & varying;
    program.color_style = Below(random, 4);
    program.key_style = Below(random, 7);
    for (size_t i = 0; i < layout.dimensions().size(); ++i) {
      (program.set >> i & 1 ? program.key_order : program.color_order).push_back(i);
    }
    std::shuffle(program.color_order.begin(), program.color_order.end(), random);
    std::shuffle(program.key_order.begin(), program.key_order.end(), random);
    const bool only_ends = Below(random, 4) == 0;
    for (int32_t stage = 0; stage < layout.classes(); ++stage) {
      program.stage_joins.push_back(!only_ends || stage == 0 ||
                                    stage + 1 == layout.classes());
    }
    return program;
  }

  int32_t Number(const Layout& layout, int32_t rank,
                 const std::vector<size_t>& order) const {
    int32_t number = 0;
    for (size_t i = order.size(); i-- > 0;) {
      number = number * layout.dimensions()[order[i]].size +
               layout.Coordinate(rank, order[i]);
    }
    return number;
  }

  Creation Call(const Layout& layout, const std::vector<int32_t>& parent,
                uint32_t member) const {
    const int32_t rank = parent[member];
    Creation call;
    call.color = protocol::kNoColor;
    if (!stage_joins[static_cast<size_t>(layout.ClassOf(rank))]) {
      return call;
    }
    auto joins = [&](uint32_t m) {
      return stage_joins[static_cast<size_t>(layout.ClassOf(parent[m]))];
    };
    std::vector<int32_t> group;    // world ranks
    std::vector<int32_t> leaders;  // first rank of each group so far
    int32_t place = -1;
    for (uint32_t m = 0; m < parent.size(); ++m) {
      if (!joins(m)) {
        continue;
      }
      const int32_t origin = layout.Combine(parent[m], set, 0);
      if (std::find(leaders.begin(), leaders.end(), origin) == leaders.end()) {
        leaders.push_back(origin);
      }
      if (origin == layout.Combine(rank, set, 0)) {
        place = static_cast<int32_t>(std::find(leaders.begin(), leaders.end(), origin) -
                                     leaders.begin());
        group.push_back(parent[m]);
      }
    }
    switch (color_style) {
      case 0:
        call.color = Number(layout, rank, color_order);
        break;
      case 1:
        call.color = place;
        break;
      case 2:
        call.color = *std::min_element(group.begin(), group.end());
        break;
      default: {  // a hash of the members, as PyTorch's new_group
        uint32_t hash = 2166136261u;
        for (int32_t r : group) {
          hash = (hash ^ static_cast<uint32_t>(r)) * 16777619u;
        }
        call.color = static_cast<int32_t>(hash & 0x7fffffffu);
      }
    }
    const auto own = std::find(group.begin(), group.end(), rank) - group.begin();
    switch (key_style) {
      case 0:
        call.key = 0;
        break;
      case 1:
        call.key = rank;
        break;
      case 2:
        call.key = static_cast<int32_t>(own);
        break;
      case 3:
        call.key = -rank;
        break;
      case 4:
        call.key = static_cast<int32_t>(group.size()) - 1 - static_cast<int32_t>(own);
        break;
      case 5:
        call.key = Number(layout, rank, key_order);
        break;
      default:
        call.key = static_cast<int32_t>(member);
    }
    return call;
  }
};

Groups Truth(const std::vector<Creation>& calls) {
  std::map<int32_t, std::vector<uint32_t>> by_color;
  for (uint32_t i = 0; i < calls.size(); ++i) {
    if (calls[i].color != protocol::kNoColor) {
      by_color[calls[i].color].push_back(i);
    }
  }
  Groups groups;
  for (auto& [color, group] : by_color) {
    groups.push_back(group);
  }
  std::sort(groups.begin(), groups.end());  // by first member in the parent's order
  for (auto& group : groups) {
    std::stable_sort(group.begin(), group.end(), [&](uint32_t a, uint32_t b) {
      return calls[a].key < calls[b].key;
    });
  }
  return groups;
}

struct Outcome {
  bool inferred = false;
  bool right = false;
  std::string message;
  std::optional<int32_t> deciding;  // the rank that a refusal names
};

// `layout`: the program's; `stated`: what is said of it.
Outcome Try(const Layout& layout, const std::vector<int32_t>& parent,
            const Program& program, const std::vector<int32_t>& real,
            const Layout& stated) {
  std::vector<Creation> calls;
  for (uint32_t i = 0; i < parent.size(); ++i) {
    calls.push_back(program.Call(layout, parent, i));
  }
  MembershipInference inference(stated, real);
  // Leaders outside the parent are in a sister of it.
  const DimensionSet fixed = layout.all() & ~layout.Varying(parent);
  std::vector<Creation> seen(parent.size());
  std::vector<Membership::SplitMember> members;
  for (uint32_t i = 0; i < parent.size(); ++i) {
    const bool is_real = std::find(real.begin(), real.end(), parent[i]) != real.end();
    if (is_real) {
      seen[i] = calls[i];
    } else {
      const int32_t leader = inference.LeaderOf(parent[i]);
      std::vector<int32_t> sister = parent;
      for (int32_t& rank : sister) {
        rank = layout.Combine(rank, fixed, leader);
      }
      const auto at = std::find(sister.begin(), sister.end(), leader);
      seen[i] =
          program.Call(layout, sister, static_cast<uint32_t>(at - sister.begin()));
    }
    members.push_back({parent[i], &seen[i], !is_real});
  }
  const auto groups = inference.Split("parent", 0, members);
  if (!groups.ok()) {
    return {false, false, groups.status().ToString(), DecidingRankOf(groups.status())};
  }
  Groups found;
  for (const auto& group : *groups) {
    found.push_back(group.members);
  }
  return {true, found == Truth(calls), "", std::nullopt};
}

Outcome Try(const Layout& layout, const std::vector<int32_t>& parent,
            const Program& program, const std::vector<int32_t>& real) {
  return Try(layout, parent, program, real, layout);
}

TEST(SplitInferencePropertyTest, IsRightOrRefuses) {
  int inferred = 0;
  int refused = 0;
  for (uint32_t seed = 0; seed < 2'000; ++seed) {
    Random random(seed);
    const Layout layout = RandomLayout(random);
    const DimensionSet plane = Below(random, 2) == 0 ? layout.all() : random();
    const std::vector<int32_t> parent =
        layout.Group(Below(random, layout.world_size()), plane & layout.all());
    // At least one real rank per stage; sometimes a few more.
    std::vector<int32_t> real;
    const bool corner = Below(random, 4) == 0;  // all other coordinates 0
    for (int32_t rank = 0; rank < layout.world_size(); ++rank) {
      if (static_cast<int32_t>(real.size()) == layout.ClassOf(rank) && corner) {
        real.push_back(rank);
      }
    }
    for (int32_t stage = 0; stage < layout.classes() || Below(random, 3) == 0;
         ++stage) {
      int32_t rank = Below(random, layout.world_size());
      while (stage < layout.classes() && layout.ClassOf(rank) != stage) {
        rank = Below(random, layout.world_size());
      }
      real.push_back(rank);
    }
    const Program program = Program::Draw(layout, layout.Varying(parent), random);
    const Outcome outcome = Try(layout, parent, program, real);
    inferred += outcome.inferred ? 1 : 0;
    refused += outcome.inferred ? 0 : 1;
    ASSERT_TRUE(!outcome.inferred || outcome.right)
        << "seed " << seed << ", layout " << layout.ToString() << ", groups by "
        << layout.SetName(program.set) << ", colour style " << program.color_style
        << ", key style " << program.key_style << ", real "
        << ::testing::PrintToString(real) << ", parent "
        << ::testing::PrintToString(parent);
  }
  std::cout << inferred << " inferred, " << refused << " refused\n";
  EXPECT_GT(inferred, 800);
}

// With the suggested ranks everything but hashed colours is inferred, at once or with
// the few ranks that the refusals name.
TEST(SplitInferencePropertyTest, SuggestedRanksSuffice) {
  int added = 0;
  int added_to_usual = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    const Layout layout = RandomLayout(random);
    std::vector<int32_t> world(static_cast<size_t>(layout.world_size()));
    std::iota(world.begin(), world.end(), 0);
    const std::vector<int32_t> suggested = SuggestRealRanks(layout);
    for (int i = 0; i < 20; ++i) {
      Program program = Program::Draw(layout, layout.all(), random);
      program.color_style %= 3;
      const bool is_usual = i % 2 == 0;  // numbers in the order of the layout
      if (is_usual) {
        std::sort(program.color_order.begin(), program.color_order.end());
        std::sort(program.key_order.begin(), program.key_order.end());
      }
      std::fill(program.stage_joins.begin(), program.stage_joins.end(), true);
      std::vector<int32_t> real = suggested;
      Outcome outcome = Try(layout, world, program, real);
      while (!outcome.inferred && outcome.deciding.has_value()) {
        ASSERT_FALSE(std::binary_search(real.begin(), real.end(), *outcome.deciding));
        real.insert(std::upper_bound(real.begin(), real.end(), *outcome.deciding),
                    *outcome.deciding);
        outcome = Try(layout, world, program, real);
        ++(is_usual ? added_to_usual : added);
      }
      ASSERT_TRUE(outcome.inferred && outcome.right)
          << "layout " << layout.ToString() << ", groups by "
          << layout.SetName(program.set) << ", colour style " << program.color_style
          << ", key style " << program.key_style << ", real "
          << ::testing::PrintToString(real) << ": " << outcome.message;
    }
  }
  std::cout << added_to_usual << " and " << added << " ranks added to 120 runs each\n";
  EXPECT_LT(added_to_usual, 12);
  EXPECT_LT(added, 12);
}

// A stated layout that is not the program's is never taken: what is inferred under it
// are the program's groups all the same.
TEST(SplitInferencePropertyTest, AWrongLayoutIsRefused) {
  int refused = 0;
  for (uint32_t seed = 0; seed < 1'000; ++seed) {
    Random random(seed);
    const Layout truth = RandomLayout(random);
    if (truth.dimensions().size() < 2)
      continue;
    // Two neighbours stated as one dimension, or with their sizes swapped.
    const size_t at = static_cast<size_t>(
        Below(random, static_cast<int32_t>(truth.dimensions().size()) - 1));
    const bool merge = Below(random, 2) == 0;
    const int32_t below = truth.dimensions()[at].size;
    const int32_t above = truth.dimensions()[at + 1].size;
    std::string text, order;
    for (size_t i = 0; i < truth.dimensions().size(); ++i) {
      const Dimension& dimension = truth.dimensions()[i];
      if (merge && i == at + 1)
        continue;
      const int32_t size = i == at       ? (merge ? below * above : above)
                           : i == at + 1 ? below
                                         : dimension.size;
      text += dimension.name + "=" + std::to_string(size) + ",";
      order += (order.empty() ? "" : "-") + dimension.name;
    }
    const Layout stated = *Layout::Parse(text + "order=" + order, truth.world_size());
    std::vector<int32_t> world(static_cast<size_t>(truth.world_size()));
    std::iota(world.begin(), world.end(), 0);
    std::vector<int32_t> real;
    for (int32_t stage = 0; stage < stated.classes() || Below(random, 3) == 0;
         ++stage) {
      int32_t rank = Below(random, truth.world_size());
      while (stage < stated.classes() && stated.ClassOf(rank) != stage)
        rank = Below(random, truth.world_size());
      real.push_back(rank);
    }
    Program program = Program::Draw(truth, truth.all(), random);
    std::fill(program.stage_joins.begin(), program.stage_joins.end(), true);
    const Outcome outcome = Try(truth, world, program, real, stated);
    refused += outcome.inferred ? 0 : 1;
    ASSERT_TRUE(!outcome.inferred || outcome.right)
        << "seed " << seed << ", stated " << stated.ToString() << ", truth "
        << truth.ToString() << ", groups by " << truth.SetName(program.set)
        << ", colour style " << program.color_style << ", key style "
        << program.key_style << ", real " << ::testing::PrintToString(real);
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace vrank::graph
