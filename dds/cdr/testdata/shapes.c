/* Prints how CycloneDDS encodes the samples below, whose types are in shapes.idl, in the lines of golden.c: collections in collections, bitmasks and enums of each size,
   unions by each kind of discriminator, optional members of each kind, and keys of several members.

     idlc shapes.idl && cc shapes.c shapes-types.c -lddsc -o shapes && ./shapes > shapes.txt

   where shapes-types.c is the shapes.c that idlc writes in another directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dds/dds.h>
#include <dds/ddsi/ddsi_serdata.h>
#include <dds/ddsi/ddsi_cdrstream.h>
#include "shapes.h"
static void hex(const char *type, const char *what, const unsigned char *p, size_t n) {
  printf("%s %s ", type, what); for (size_t i = 0; i < n; i++) printf("%02x", p[i]); printf("\n");
}
static void body(const char *type, const char *what, const void *v, const dds_topic_descriptor_t *d, uint32_t version, enum ddsrt_byte_order_selector order) {
  dds_ostream_t os; dds_ostream_init(&os, 0, version);
  if (dds_stream_write_with_byte_order(&os, v, d->m_ops, order)) hex(type, what, os.m_buffer, os.m_index);
  else fprintf(stderr, "%s %s failed\n", type, what);
  dds_ostream_fini(&os);
}
static void bodies(const char *type, const void *v, const dds_topic_descriptor_t *d) {
  if (dds_stream_minimum_xcdr_version(d->m_ops) == CDR_ENC_VERSION_1) {
    body(type, "x1le", v, d, CDR_ENC_VERSION_1, DDSRT_BOSEL_LE); body(type, "x1be", v, d, CDR_ENC_VERSION_1, DDSRT_BOSEL_BE);
  }
  body(type, "x2le", v, d, CDR_ENC_VERSION_2, DDSRT_BOSEL_LE); body(type, "x2be", v, d, CDR_ENC_VERSION_2, DDSRT_BOSEL_BE);
}
static dds_entity_t participant;
static void keyed(const char *type, const void *v, const dds_topic_descriptor_t *d, int representation) {
  dds_qos_t *q = dds_create_qos(); dds_data_representation_id_t reps[1] = {representation};
  dds_qset_data_representation(q, 1, reps); dds_qset_reliability(q, DDS_RELIABILITY_RELIABLE, DDS_SECS(1)); dds_qset_writer_data_lifecycle(q, false);
  char name[100]; snprintf(name, sizeof name, "%s%d", type, representation);
  dds_entity_t topic = dds_create_topic(participant, d, name, q, NULL), reader = dds_create_reader(participant, topic, q, NULL), writer = dds_create_writer(participant, topic, q, NULL);
  if (topic < 0 || reader < 0 || writer < 0) { fprintf(stderr, "%s: no writer\n", type); return; }
  dds_write(writer, v);
  struct ddsi_serdata *sd; dds_sample_info_t si; char w[20];
  if (dds_takecdr(reader, &sd, 1, &si, DDS_ANY_STATE) == 1) {
    struct ddsi_keyhash h;
    ddsi_serdata_get_keyhash(sd, &h, false); snprintf(w, sizeof w, "hash%d", representation == DDS_DATA_REPRESENTATION_XCDR1 ? 1 : 2); hex(type, w, h.value, 16);
    ddsi_serdata_get_keyhash(sd, &h, true); snprintf(w, sizeof w, "md5%d", representation == DDS_DATA_REPRESENTATION_XCDR1 ? 1 : 2); hex(type, w, h.value, 16);
    ddsi_serdata_unref(sd);
  }
  dds_dispose(writer, v);
  if (dds_takecdr(reader, &sd, 1, &si, DDS_ANY_STATE) == 1) {
    uint32_t n = ddsi_serdata_size(sd); unsigned char *b = malloc(n); ddsi_serdata_to_ser(sd, 0, n, b);
    snprintf(w, sizeof w, "key%d", representation == DDS_DATA_REPRESENTATION_XCDR1 ? 1 : 2); hex(type, w, b, n); free(b); ddsi_serdata_unref(sd);
  }
  dds_delete(writer); dds_delete(reader); dds_delete(topic); dds_delete_qos(q);
}
#define SEQ(t, ...) { ._length = sizeof((t[]){__VA_ARGS__}) / sizeof(t), ._maximum = sizeof((t[]){__VA_ARGS__}) / sizeof(t), ._buffer = (t[]){__VA_ARGS__} }
int main(void) {
  participant = dds_create_participant(0, NULL, NULL);
  typeof(((T_Seqs *)0)->ss._buffer[0]) ss0 = SEQ(uint8_t, 1, 2, 3), ss1 = { 0 };
  T_Seqs Seqs; memset(&Seqs, 0, sizeof Seqs);
  typeof(ss0) ssb[3] = { ss0, ss1, ss0 }; Seqs.ss._length = Seqs.ss._maximum = 3; Seqs.ss._buffer = ssb;
  typeof(((T_Seqs *)0)->sst._buffer[0]) sst0 = SEQ(char *, "a", ""), sstb[2] = { { 0 }, sst0 }; Seqs.sst._length = Seqs.sst._maximum = 2; Seqs.sst._buffer = sstb;
  int32_t as0[3] = { 1, -2, 3 }; Seqs.as[1]._length = Seqs.as[1]._maximum = 3; Seqs.as[1]._buffer = as0;
  Seqs.ast[0] = ""; Seqs.ast[1] = "array";
  bool sb[3] = { true, false, true }; Seqs.sb._length = Seqs.sb._maximum = 3; Seqs.sb._buffer = sb;
  double sd[1] = { 2.5 }; Seqs.sd._length = Seqs.sd._maximum = 1; Seqs.sd._buffer = sd;
  for (int i = 0; i < 12; i++) ((int32_t *)Seqs.cube)[i] = i * 1000 - 3;
  T_APT aps[2] = { { 1, NULL }, { 2, "two" } }; Seqs.saps._length = Seqs.saps._maximum = 2; Seqs.saps._buffer = aps; Seqs.tail = 9;
  bodies("Seqs", &Seqs, &T_Seqs_desc);
  T_Masks Masks = { .x = 1, .f16 = 0x8001, .y = 2, .f32 = 0x80000000u, .z = 3, .f64 = 0x8000000000000000ull, .s16 = SEQ(T_BM16, 1, 0x8000), .af = { 0x8000000000000000ull, 0 }, .e8 = T_E8B, .e16 = T_E16B, .ev = T_EV10,
    .se8 = SEQ(T_EN8, T_E8A, T_E8B), .ae16 = { T_E16B, T_E16A, T_E16B }, .w = 4 };
  bodies("Masks", &Masks, &T_Masks_desc);
  char *names[2] = { "n", "" };
  T_UNE ue; memset(&ue, 0, sizeof ue); ue._d = T_EV3; ue._u.names._length = ue._u.names._maximum = 2; ue._u.names._buffer = names;
  T_UNE uf; memset(&uf, 0, sizeof uf); uf._d = T_EV10; uf._u.p.a = -1; uf._u.p.b = 4.5;
  T_UNE sue[2] = { uf, ue };
  T_Unions Unions; memset(&Unions, 0, sizeof Unions); Unions.x = 1; Unions.ue = ue; Unions.uf = uf; Unions.ub._d = true; Unions.ub._u.o = 7; Unions.uc._d = false; Unions.uc._u.ll = -8;
  Unions.ud._d = 'a'; Unions.ud._u.l = 5; Unions.ug._d = 'z'; Unions.ug._u.s = "zed"; Unions.sue._length = Unions.sue._maximum = 2; Unions.sue._buffer = sue;
  Unions.auc[0] = Unions.ug; Unions.auc[1] = Unions.ud; Unions.y = 2;
  bodies("Unions", &Unions, &T_Unions_desc);
  int32_t q0[2] = { 11, 12 }; double d = 0.125; T_PT p = { 3, 3.5 };
  typeof(*((T_MPT *)0)->q) q = { ._length = 2, ._maximum = 2, ._buffer = q0 };
  T_MPT mp = { .a = 1, .s = "mp", .d = &d, .q = &q, .p = &p }, mq = { .a = 2 };
  T_APT ap = { 5, "ap" }; T_ENV ev = T_EV10; T_BM64 f = 0x8000000000000000ull; int64_t ll = -9; double osd0[2] = { 1.5, 2.5 };
  typeof(*((T_Opts *)0)->sd) osd = { ._length = 2, ._maximum = 2, ._buffer = osd0 };
  T_Opts Opts = { .x = 1, .ap = &ap, .mp = &mp, .sd = &osd, .ev = &ev, .f = &f, .ll = &ll, .y = 2 };
  bodies("Opts", &Opts, &T_Opts_desc);
  uint8_t o = 1; int16_t s = -2; int32_t l = 3; double dd = 4.5; uint8_t mq0[3] = { 7, 8, 9 };
  typeof(*((T_Muts *)0)->q) mqs = { ._length = 3, ._maximum = 3, ._buffer = mq0 };
  typeof(*((T_Muts *)0)->qd) mqd = { ._length = 2, ._maximum = 2, ._buffer = osd0 };
  T_MPT smp0[2] = { mp, mq }; typeof(*((T_Muts *)0)->smp) smp = { ._length = 2, ._maximum = 2, ._buffer = smp0 };
  typeof(*((T_Muts *)0)->names) mnames = { ._length = 2, ._maximum = 2, ._buffer = names };
  typeof(((T_Muts *)0)->sl->_buffer[0]) sl0[2] = { SEQ(int32_t, 1, 2), { 0 } }; typeof(*((T_Muts *)0)->sl) sl = { ._length = 2, ._maximum = 2, ._buffer = sl0 };
  T_EN16 se0[2] = { T_E16B, T_E16A }; typeof(*((T_Muts *)0)->se) se = { ._length = 2, ._maximum = 2, ._buffer = se0 };
  T_Muts Muts = { .o = &o, .s = &s, .l = &l, .d = &dd, .str = "str", .q = &mqs, .qd = &mqd, .mp = &mp, .smp = &smp, .f = 0x8000000000000000ull, .names = &mnames, .e8 = T_E8B, .sl = &sl, .se = &se, .sf = SEQ(T_BM16, 1, 0x8000, 0), .ue = ue,
    .bs = SEQ(bool, true, false), .sa = { 1, 2, 3 }, .b = true, .f16 = 0x8000, .ff = { 1.5f, 2.5f } };
  bodies("Muts", &Muts, &T_Muts_desc);
  T_Keys Keys = { .ev = T_EV3, .b = true, .s = "keykey", .a = { 1, 2, 3 }, .v = 4 };
  bodies("Keys", &Keys, &T_Keys_desc); keyed("Keys", &Keys, &T_Keys_desc, DDS_DATA_REPRESENTATION_XCDR2);
  T_KeyDeep KeyDeep = { .i = { "inner", 1 }, .l = -2, .s = "s", .p = { 3, 4.5 } };
  bodies("KeyDeep", &KeyDeep, &T_KeyDeep_desc); keyed("KeyDeep", &KeyDeep, &T_KeyDeep_desc, DDS_DATA_REPRESENTATION_XCDR1); keyed("KeyDeep", &KeyDeep, &T_KeyDeep_desc, DDS_DATA_REPRESENTATION_XCDR2);
  dds_delete(participant);
  return 0;
}
