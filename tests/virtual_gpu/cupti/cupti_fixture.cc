#include "tests/virtual_gpu/cupti/cupti_fixture.h"

#include <cstdlib>
#include <cstring>

#include "base/guest/export.h"
#include "base/guest/virtual_gpu.h"
#include "tests/virtual_gpu/core/fake_channel.h"

namespace vrank::cupti {
namespace {

FakeChannel& TheChannel() {
  static FakeChannel* const channel = [] {
    auto* made = new FakeChannel;
    protocol::Settings& settings = made->mutable_settings();
    settings.devices = settings.local_world_size = settings.world_size = 2;
    settings.realtime_at_start_ns = 2'000'000'000'000'000'000;
    settings.monotonic_at_start_ns = 5'000'000;
    settings.gpu.memory_clock_khz = 2'000'000;
    settings.gpu.memory_bus_bits = 4096;
    return made;
  }();
  return *channel;
}

uint32_t first_id = 0;

// The buffers out there, by their aligned start.
std::map<uint8_t*, void*>& Blocks() {
  static auto* const blocks = new std::map<uint8_t*, void*>;
  return *blocks;
}

void CUPTIAPI Request(uint8_t** buffer, size_t* size, size_t* max_records) {
  Client& client = TheClient();
  ++client.requests;
  if (client.decline > 0) {
    --client.decline;
    *buffer = nullptr;
    return;
  }
  void* block = std::malloc(client.buffer_bytes + 16);
  std::memset(block, 0xab, client.buffer_bytes + 16);
  *buffer = static_cast<uint8_t*>(block) + client.misalign;
  *size = client.buffer_bytes;
  *max_records = client.max_records;
  Blocks()[*buffer] = block;
}

void CUPTIAPI Complete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                       size_t valid) {
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(stream, 0u);
  Client& client = TheClient();
  client.delivered.emplace_back(buffer, buffer + valid);
  ASSERT_EQ(Blocks().count(buffer), 1u) << "given back twice";
  std::free(Blocks()[buffer]);
  Blocks().erase(buffer);
  if (client.on_complete != nullptr)
    client.on_complete();
}

}  // namespace

FakeActivity& TheActivity() {
  static FakeActivity* const activity = new FakeActivity;
  return *activity;
}

gpu::ProcessGpu& TheGpu() {
  static gpu::ProcessGpu* const gpu = new gpu::ProcessGpu(&TheChannel());
  return *gpu;
}

const protocol::Settings& TheSettings() {
  return TheChannel().settings();
}

Client& TheClient() {
  static Client* const client = new Client;
  return *client;
}

CuptiTest::CuptiTest() {
  first_id += 1'000;
  EXPECT_CUPTI(cuptiFinalize());
  EXPECT_EQ(cuptiGetLastError(), CUPTI_SUCCESS);
  TheClient() = Client();
  FakeActivity& activity = TheActivity();
  activity.flushes.clear();
  activity.ids.clear();
  activity.introduce = nullptr;
  activity.now_ns = 1'000;
  EXPECT_EQ(TheGpu().SetCurrentDevice(0), gpu::Error::kSuccess);
  EXPECT_EQ(TheGpu().EnsureContext(0), gpu::Error::kSuccess);
}

CuptiTest::~CuptiTest() {
  EXPECT_CUPTI(cuptiFinalize());
  EXPECT_EQ(TheActivity().listener, nullptr);
  EXPECT_TRUE(Blocks().empty()) << "a buffer was not given back";
  cuptiGetLastError();
}

void CuptiTest::RegisterBuffers() {
  EXPECT_CUPTI(cuptiActivityRegisterCallbacks(Request, Complete));
}

std::vector<const CUpti_Activity*> CuptiTest::Records() {
  EXPECT_CUPTI(cuptiActivityFlushAll(0));
  std::vector<const CUpti_Activity*> found;
  for (std::vector<uint8_t>& buffer : TheClient().delivered) {
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer.data(), buffer.size(), &record) ==
           CUPTI_SUCCESS)
      found.push_back(record);
  }
  return found;
}

uint32_t CuptiTest::Id(uint32_t n) {
  return first_id + n;
}

void CuptiTest::Enter(const char* function, uint32_t n, bool is_driver,
                      const void* parameters) {
  if (TheActivity().listener != nullptr)
    Listener().OnEnter(is_driver, function, Id(n), parameters, nullptr);
}

void CuptiTest::Exit(const char* function, uint32_t n, bool is_driver,
                     const void* parameters, int32_t result) {
  if (TheActivity().listener != nullptr)
    Listener().OnExit(is_driver, function, Id(n), parameters, nullptr, result);
}

void CuptiTest::Report(const char* function, uint32_t n, int64_t start_ns,
                       int64_t end_ns, bool is_driver) {
  gpu::ActivityCall report;
  report.is_driver = is_driver;
  report.function = function;
  report.correlation = Id(n);
  report.start_ns = start_ns;
  report.end_ns = end_ns;
  Listener().OnCall(report);
}

}  // namespace vrank::cupti

extern "C" VRANK_EXPORT CUresult cuGetExportTable(const void** table,
                                                  const CUuuid* uuid) {
  static vrank::VirtualGpuTable ours;
  if (std::memcmp(uuid, vrank::kVirtualGpuTable, sizeof vrank::kVirtualGpuTable) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  ours.gpu = &vrank::cupti::TheGpu().libraries();
  ours.runtime = &vrank::cupti::TheGpu();
  ours.activity = &vrank::cupti::TheActivity();
  *table = &ours;
  return CUDA_SUCCESS;
}

// Where refusals are counted.
extern "C" VRANK_EXPORT vrank::Channel* vrank_guest_channel(uint32_t abi) {
  return abi == vrank::Channel::kAbi ? &vrank::cupti::TheChannel() : nullptr;
}
