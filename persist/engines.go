// Package persist keeps the logs of persistent subgroups.
package persist

import (
	_ "github.com/hashicorp/raft"
	_ "github.com/hashicorp/raft-boltdb/v2"
	_ "github.com/hashicorp/raft-wal"
	_ "go.etcd.io/bbolt"
)
