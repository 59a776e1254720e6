// Program is a program with a type that is not exported.
package main

type note struct {
	ID   uint64 `dds:"key"`
	Text string `dds:"bound=80"`
}

func main() { _ = note{} }
