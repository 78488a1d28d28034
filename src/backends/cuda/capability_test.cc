// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/capability.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace inkstone::cuda {
namespace {

using ::testing::HasSubstr;

DeviceInfo device_with(Capability capability) {
  DeviceInfo device;
  device.name = "a GPU";
  device.capability = capability;
  device.shared_bytes_per_block = 232'448;
  device.driver_version = 13'000;
  return device;
}

TEST(ChooseKernels, TakesExactlyTheCapabilitiesThatWereBuilt) {
  for (const Capability& capability : {Capability{8, 0}, Capability{8, 9}, Capability{9, 0},
                                       Capability{10, 0}, Capability{10, 3}, Capability{12, 0}}) {
    EXPECT_EQ(choose_kernels(device_with(capability), {{9, 0}}).has_value(),
              capability == (Capability{9, 0}));
    EXPECT_EQ(choose_kernels(device_with(capability), {{9, 0}, {10, 0}}).has_value(),
              capability == (Capability{9, 0}) || capability == (Capability{10, 0}));
  }
}

TEST(ChooseKernels, NamesTheCapabilityAndWhatTheBuildHolds) {
  const auto refused = choose_kernels(device_with({12, 0}), {{9, 0}, {10, 0}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("12.0"));
  EXPECT_THAT(refused.error().message, HasSubstr("9.0, 10.0"));
}

TEST(ChooseKernels, RefusesAnOldDriver) {
  DeviceInfo device = device_with({9, 0});
  device.driver_version = 12'080;
  const auto refused = choose_kernels(device, {{9, 0}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("12.8"));
}

TEST(ChooseKernels, RefusesTooLittleSharedMemory) {
  DeviceInfo device = device_with({9, 0});
  device.shared_bytes_per_block = 65'536;
  EXPECT_FALSE(choose_kernels(device, {{9, 0}}).has_value());
}

}  // namespace
}  // namespace inkstone::cuda
