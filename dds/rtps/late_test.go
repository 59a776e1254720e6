package rtps_test

import (
	"context"
	"testing"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// A topic keeps the last sample of each instance. A DDS reader that comes late gets that sample of
// an instance which several writers of the space have written, and not one of each writer. Each
// writer then writes an instance of its own, so that the reader has all of a writer when it has
// this sample.
func TestALateDDSReaderGetsTheHistoryOfTheTopic(t *testing.T) {
	for _, durability := range []qos.Durability{qos.TransientLocal, qos.Transient} {
		t.Run(durability.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			const writers, shared = 5, 1000
			p, domain := space(t, nil), newDomain()
			set := dds.QoS{Durability: durability, Service: qos.DurabilityService{History: qos.KeepLast(1)}}
			topic := keyed(t, p, "positions", set)
			g := gateway(t, p, domain, rtps.Topic{Name: "positions", Direction: rtps.Out, QoS: set})
			var all []*dds.Writer[keyedSeq]
			for i := range uint32(writers) {
				w, err := topic.Writer(ctx, dds.QoS{Durability: durability, KeepUnregistered: true})
				if err == nil {
					err = w.Write(ctx, keyedSeq{Keyval: shared, Seq: i})
				}
				if err == nil {
					err = w.Write(ctx, keyedSeq{Keyval: i, Seq: i})
				}
				if err != nil {
					t.Fatal(err)
				}
				await(t, "the samples are written to DDS", func() bool { return g.Stats().Written == 2*uint64(i+1) })
				all = append(all, w)
			}
			if durability == qos.Transient { // the history outlives a writer
				if err := all[0].Close(ctx); err != nil {
					t.Fatal(err)
				}
			}
			late := newGuest(t, wire.Prefix{7, 7, byte(durability)}, domain, g)
			defer late.end()
			late.with(func() {
				late.machine.OpenReader(late.now(), wire.Endpoint{Topic: "positions", Type: "KeyedSeq", QoS: qos.Set{Durability: qos.TransientLocal}}, true)
			})
			codec, err := cdr.New[keyedSeq]()
			if err != nil {
				t.Fatal(err)
			}
			var got []uint32 // of the shared instance
			await(t, "the late reader has the last sample of each writer", func() bool {
				own := 0
				got = got[:0]
				late.with(func() {
					for _, s := range late.got {
						var v keyedSeq
						if err := codec.Decode(s.Payload, &v); err != nil || s.Status != 0 {
							continue
						}
						if v.Keyval == shared {
							got = append(got, v.Seq)
						} else {
							own++
						}
					}
				})
				return own == writers
			})
			if len(got) != 1 || got[0] != writers-1 {
				t.Fatalf("the late reader has the samples %v of an instance of which the topic keeps sample %d", got, writers-1)
			}
			if durability == qos.Transient {
				if err := all[1].Write(ctx, keyedSeq{Keyval: 0, Seq: writers}); err != nil {
					t.Fatal(err)
				}
				await(t, "a closed writer leaves the domain with its last sample of the history", func() bool { return g.Stats().Readers == writers-1 })
			}
		})
	}
}
