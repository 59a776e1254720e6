/* Prints how CycloneDDS encodes the samples below, whose types are in golden.idl, one line each: TYPE WHAT HEX.
   WHAT is x1le, x1be, x2le or x2be for a value without an encapsulation header in each format that CycloneDDS has for the
   type; payload1 and payload2 for a sample as it is sent, with its header; for types with keys also
   key1 and key2 for the payload of a dispose, and hash and md5 for the key hash without and with a forced digest.

   On Debian 12 with cyclonedds-dev and cyclonedds-tools 0.10.2:

     idlc golden.idl && cc golden.c golden-types.c -lddsc -o golden && ./golden > golden.txt

   where golden-types.c is the golden.c that idlc writes in another directory. Without multicast, CYCLONEDDS_URI names the
   interface lo. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dds/dds.h>
#include <dds/ddsi/ddsi_serdata.h>
#include <dds/ddsi/ddsi_cdrstream.h>
#include "golden.h"

static void hex(const char *type, const char *what, const unsigned char *p, size_t n) {
  printf("%s %s ", type, what);
  for (size_t i = 0; i < n; i++) printf("%02x", p[i]);
  printf("\n");
}

static void body(const char *type, const char *what, const void *v, const dds_topic_descriptor_t *d, uint32_t version, enum ddsrt_byte_order_selector order) {
  dds_ostream_t os;
  dds_ostream_init(&os, 0, version);
  if (dds_stream_write_with_byte_order(&os, v, d->m_ops, order)) hex(type, what, os.m_buffer, os.m_index);
  else fprintf(stderr, "%s %s failed\n", type, what);
  dds_ostream_fini(&os);
}

static void bodies(const char *type, const void *v, const dds_topic_descriptor_t *d) {
  if (dds_stream_minimum_xcdr_version(d->m_ops) == CDR_ENC_VERSION_1) {
    body(type, "x1le", v, d, CDR_ENC_VERSION_1, DDSRT_BOSEL_LE);
    body(type, "x1be", v, d, CDR_ENC_VERSION_1, DDSRT_BOSEL_BE);
  }
  body(type, "x2le", v, d, CDR_ENC_VERSION_2, DDSRT_BOSEL_LE);
  body(type, "x2be", v, d, CDR_ENC_VERSION_2, DDSRT_BOSEL_BE);
}

static dds_entity_t participant;

static void taken(const char *type, const char *what, dds_entity_t reader, const char *version) {
  struct ddsi_serdata *sd;
  dds_sample_info_t si;
  if (dds_takecdr(reader, &sd, 1, &si, DDS_ANY_STATE) != 1) { fprintf(stderr, "%s %s: nothing\n", type, what); exit(1); }
  uint32_t n = ddsi_serdata_size(sd);
  unsigned char *b = malloc(n);
  ddsi_serdata_to_ser(sd, 0, n, b);
  hex(type, what, b, n);
  free(b);
  if (version) {
    struct ddsi_keyhash h;
    char w[20];
    ddsi_serdata_get_keyhash(sd, &h, false);
    snprintf(w, sizeof w, "hash%s", version);
    hex(type, w, h.value, 16);
    ddsi_serdata_get_keyhash(sd, &h, true);
    snprintf(w, sizeof w, "md5%s", version);
    hex(type, w, h.value, 16);
  }
  ddsi_serdata_unref(sd);
}

static void payload(const char *type, const void *v, const dds_topic_descriptor_t *d, int keyed, int representation) {
  dds_qos_t *q = dds_create_qos();
  dds_data_representation_id_t reps[1] = {representation};
  dds_qset_data_representation(q, 1, reps);
  dds_qset_reliability(q, DDS_RELIABILITY_RELIABLE, DDS_SECS(1));
  dds_qset_writer_data_lifecycle(q, false);
  char name[100];
  snprintf(name, sizeof name, "%s%d", type, representation);
  dds_entity_t topic = dds_create_topic(participant, d, name, q, NULL);
  dds_entity_t reader = dds_create_reader(participant, topic, q, NULL);
  dds_entity_t writer = dds_create_writer(participant, topic, q, NULL);
  const char *x = representation == DDS_DATA_REPRESENTATION_XCDR1 ? "1" : "2";
  char w[20];
  if (topic < 0 || reader < 0 || writer < 0) { fprintf(stderr, "%s: no writer\n", type); exit(1); }
  if (dds_write(writer, v) < 0) exit(1);
  snprintf(w, sizeof w, "payload%s", x);
  taken(type, w, reader, keyed ? x : NULL);
  if (keyed) {
    if (dds_dispose(writer, v) < 0) exit(1);
    snprintf(w, sizeof w, "key%s", x);
    taken(type, w, reader, NULL);
  }
  dds_delete(writer); dds_delete(reader); dds_delete(topic); dds_delete_qos(q);
}

#define SEQ(t, ...) { ._length = sizeof((t[]){__VA_ARGS__}) / sizeof(t), ._maximum = sizeof((t[]){__VA_ARGS__}) / sizeof(t), ._buffer = (t[]){__VA_ARGS__} }

#define BODY(T) bodies(#T, &T, &G_##T##_desc)
#define BOTH(T) do { BODY(T); payload(#T, &T, &G_##T##_desc, 0, DDS_DATA_REPRESENTATION_XCDR1); payload(#T, &T, &G_##T##_desc, 0, DDS_DATA_REPRESENTATION_XCDR2); } while (0)
#define ONLY2(T) do { BODY(T); payload(#T, &T, &G_##T##_desc, 0, DDS_DATA_REPRESENTATION_XCDR2); } while (0)
#define KEYS(T) do { BODY(T); payload(#T, &T, &G_##T##_desc, 1, DDS_DATA_REPRESENTATION_XCDR1); payload(#T, &T, &G_##T##_desc, 1, DDS_DATA_REPRESENTATION_XCDR2); } while (0)
#define KEYS2(T) do { BODY(T); payload(#T, &T, &G_##T##_desc, 1, DDS_DATA_REPRESENTATION_XCDR2); } while (0)

int main(void) {
  participant = dds_create_participant(0, NULL, NULL);
  if (participant < 0) return 1;
  G_Scalars Scalars = { true, 0xfe, 'x', -2, 65000, -70000, 4000000000u, -5000000000ll, 0xfedcba9876543210ull, 1.5f, -2.25, "hello" };
  BOTH(Scalars);
  G_NestedX1 NestedX1 = { .x = 1, .inn = {-3, 2.5}, .inners = SEQ(G_Inner, {1, 1.5}, {2, 2.5}), .arr = {7, 8, 9}, .bytes = {1, 2, 3, 4, 5},
    .raw = SEQ(uint8_t, 10, 11, 12), .names = SEQ(char *, "a", "", "ccc"), .colr = G_BLUE, .y = 9, .colors = SEQ(G_Color, G_GREEN, G_RED),
    .bnd = "bounded", .ds = SEQ(double, 0.5, 0.25), .grid = {{1, 2}, {3, 4}}, .ia = {{5, 5.5}, {6, 6.5}}, .uu = {._d = 2, ._u = {.s = "union"}},
    .flg = 9, .fs = SEQ(G_Flags, 1, 8), .ca = {G_GREEN, G_BLUE} };
  BOTH(NestedX1);
  G_NestedX2 NestedX2 = { .x = 1, .ai = {2, "two"}, .mi = {3, "three"}, .au = {._d = 1, ._u = {.a = 77}}, .ais = SEQ(G_AInner, {4, "x"}, {5, "yy"}), .mis = SEQ(G_MInner, {6, "z"}), .z = 8 };
  ONLY2(NestedX2);
  int32_t l = 42; G_Inner in = {4, 4.5};
  G_Opt Opt = { .x = 1, .l = &l, .s = "opt", .i = &in, .none = NULL, .y = 2 };
  ONLY2(Opt);
  G_App App = { .x = 1, .d = 2.5, .s = "app", .ai = {3, "in"}, .ais = SEQ(G_AInner, {4, "e"}), .z = 5 };
  ONLY2(App);
  G_Mut Mut = { .x = 1, .d = 2.5, .s = "mut", .none = NULL, .sh = -4, .ls = SEQ(int32_t, 1, 2, 3), .os = SEQ(uint8_t, 1, 2, 3), .inn = {5, 5.5}, .ds = SEQ(double, 1.5, 2.5),
    .ai = {6, "six"}, .c = G_BLUE, .uu = {._d = 9, ._u = {.d = 3.5}}, .arr = {7, 8, 9}, .names = SEQ(char *, "n1", "n22"), .inners = SEQ(G_Inner, {1, 1.5}), .mu = 19,
    .mi = {20, "mi"}, .au = {._d = 2, ._u = {.s = "au"}}, .cs = SEQ(G_Color, G_GREEN, G_BLUE), .ais = SEQ(G_AInner, {1, "q"}), .oa = {1, 2, 3}, .da = {1.25, 2.25} };
  ONLY2(Mut);
  G_KeyLong KeyLong = { 0x01020304, "v" };
  KEYS(KeyLong);
  G_KeyStr KeyStr = { 1, "key", 2 };
  KEYS(KeyStr);
  G_KeyNest KeyNest = { 1, {2, 3}, {4, 5}, 6 };
  KEYS(KeyNest);
  G_KeyApp KeyApp = { "s", 1, 0x0102030405060708ll };
  KEYS2(KeyApp);
  G_KeyMut KeyMut = { 1, 2, "s" };
  KEYS2(KeyMut);
  G_KeyWide KeyWide = { 1, 2, 3 };
  KEYS(KeyWide);
  G_KeyedSeq KeyedSeq = { 1, 2, SEQ(uint8_t, 1, 2, 3, 4, 5, 6, 7) };
  KEYS(KeyedSeq);
  dds_delete(participant);
  return 0;
}
