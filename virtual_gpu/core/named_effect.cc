#include "virtual_gpu/core/named_effect.h"

namespace vrank::gpu {
namespace {

using Rule = std::unique_ptr<const NamedEffect> (*)(std::string_view mangled);

constexpr Rule kRules[] = {
#define VRANK_NAMED_EFFECT(rule) rule,
#include "virtual_gpu/core/named_effects.def"
#undef VRANK_NAMED_EFFECT
};

}  // namespace

std::unique_ptr<const NamedEffect> NewNamedEffect(std::string_view mangled) {
  for (const Rule rule : kRules)
    if (auto effect = rule(mangled))
      return effect;
  return nullptr;
}

}  // namespace vrank::gpu
