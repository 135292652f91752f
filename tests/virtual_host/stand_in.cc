// Plays one of our stand-ins, or a library next to one.

extern "C" int vrank_test_stand_in() {
  return 1;
}
