package logs

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/squall-go/squall/order"
)

// readKeys reads the members' public keys: a line for each, NODE KEY.
func readKeys(path string) (map[order.NodeID]ed25519.PublicKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--keys: %w", err)
	}
	keys := map[order.NodeID]ed25519.PublicKey{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		node, key, err := parseKey(fields)
		if err == nil && keys[node] != nil {
			err = fmt.Errorf("node %d has a key already", node)
		}
		if err != nil {
			return nil, fmt.Errorf("--keys %s: line %d: %w", path, number, err)
		}
		keys[node] = key
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("--keys %s: no key in it; it takes lines of a node id and its public key", path)
	}
	return keys, nil
}

func parseKey(fields []string) (order.NodeID, ed25519.PublicKey, error) {
	if len(fields) != 2 {
		return 0, nil, fmt.Errorf("%d words instead of a node id and a public key", len(fields))
	}
	node, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return 0, nil, fmt.Errorf("%q is no node id", fields[0])
	}
	key, err := hex.DecodeString(fields[1])
	if err != nil {
		key, err = base64.StdEncoding.DecodeString(fields[1])
	}
	if err != nil || len(key) != ed25519.PublicKeySize {
		return 0, nil, fmt.Errorf("%q is no Ed25519 public key: %d bytes in base64 or hexadecimal", fields[1], ed25519.PublicKeySize)
	}
	return order.NodeID(node), key, nil
}
