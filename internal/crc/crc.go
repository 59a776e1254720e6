// Package crc is the checksum of everything that Squall writes to disk or wire: CRC-32C
// (Castagnoli), which processors compute by themselves.
package crc

import (
	"hash"
	"hash/crc32"
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Of returns the checksum of bytes.
func Of(b []byte) uint32 { return crc32.Checksum(b, table) }

// Add returns the checksum of bytes that follow those with the given checksum.
func Add(sum uint32, b []byte) uint32 { return crc32.Update(sum, table, b) }

// New returns a hash that computes the checksum of what is written to it.
func New() hash.Hash32 { return crc32.New(table) }
