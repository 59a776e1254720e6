// Package fleet has types of topics.
package fleet

// Point is part of a type.
type Point struct{ X, Y float64 }

// Position is the type of a topic.
type Position struct {
	Vehicle int32   `dds:"key"`
	Path    []Point `dds:"bound=100"`
	Remark  *string
	_       struct{} `dds:"appendable,name=Fleet::Position"`
}

// Pair has a parameter.
type Pair[T any] struct{ A, B T }

// Odd has no representation in IDL.
type Odd struct{ N int }
