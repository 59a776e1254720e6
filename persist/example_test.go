package persist_test

import (
	"context"
	"fmt"
	"os"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	_ "github.com/squall-go/squall/persist/bolt"
)

// A store is the directory of one node. Its logs take records in the order of their versions, and
// give them back as soon as they are on disk.
func Example() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := keep(dir); err != nil {
		fmt.Println(err)
	}
	if err := show(dir); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1:1: a pear
	// 1:2: six plums
}

// keep appends three records.
func keep(dir string) error {
	store, err := persist.Open(context.Background(), persist.Config{Dir: dir, Cluster: "shop", Node: 1})
	if err != nil {
		return err
	}
	defer store.Close()
	log, err := store.Log(context.Background(), persist.LogConfig{ID: persist.LogID{Name: "orders"}})
	if err != nil {
		return err
	}
	for i, text := range []string{"ten apples", "a pear", "six plums"} {
		r := persist.Record{Version: order.Version{View: 1, Seq: order.Seq(i)}, Sender: 1, Data: []byte(text)}
		if !log.Append(&r) {
			return fmt.Errorf("there is no space for record %d: %w", i, log.Err())
		}
	}
	return log.Sync(context.Background()) // from here on they survive a crash
}

// show prints the records from the second on.
func show(dir string) error {
	store, err := persist.Open(context.Background(), persist.Config{Dir: dir, ReadOnly: true})
	if err != nil {
		return err
	}
	defer store.Close()
	log, err := store.Log(context.Background(), persist.LogConfig{ID: persist.LogID{Name: "orders"}})
	if err != nil {
		return err
	}
	for r, err := range log.Range(order.Version{View: 1, Seq: 1}, order.Version{}) {
		if err != nil {
			return err
		}
		fmt.Printf("%v: %s\n", r.Version, r.Data)
	}
	return nil
}
