// Marks the functions that a guest library exports.
//
// Guest code is compiled with -fvisibility=hidden, and a version script cannot undo
// that: `global: cudaMalloc;` over a hidden function exports nothing, and no tool
// warns. So every entry point carries this attribute; scripts/check_symbols.py reads
// `nm -D`.

#ifndef VRANK_BASE_GUEST_EXPORT_H_
#define VRANK_BASE_GUEST_EXPORT_H_

#define VRANK_EXPORT __attribute__((visibility("default")))

#endif  // VRANK_BASE_GUEST_EXPORT_H_
