// Package cdr encodes Go values in CDR, the representation of samples in DDS: XCDR1 and XCDR2 of
// DDS-XTypes 1.3, with final, appendable and mutable types, keys, and both byte orders.
//
//	type Position struct {
//		Vehicle int32     `dds:"key"`
//		Path    []Point   `dds:"bound=100"`
//		Remark  *string   // optional
//		_       struct{}  `dds:"appendable,name=Fleet::Position"`
//	}
//
//	codec, err := cdr.New[Position]()
//	payload, err = codec.Append(payload[:0], &p, cdr.XCDR2)
//	err = codec.Decode(payload, &p)
//
// A type is compiled once, by New; encoding a value uses no reflection and, apart from maps,
// allocates nothing. Decode trusts no byte of its input: counts, sizes and offsets are compared
// with the bytes that remain, and memory with a budget of 16 times the payload and 1 MiB, before
// anything is allocated, and nesting is bounded.
//
// # Types
//
//	bool, int8 … int64, uint8 … uint64, float32, float64   boolean, int8, short … (uint8 is octet)
//	string                                                  string
//	[]T, [n]T, map[K]V                                      sequence, array, map (keys are integers or strings)
//	*T                                                      an optional member
//	struct                                                  struct, or union
//	an integer type with the method of Enum                 enum
//	an unsigned type with the method of Bitmask             bitmask
//
// int and uint have no size on the wire and are refused, and so are fields that are not exported: a
// value must not lose a part silently. Strings with a zero byte are refused, because a reader in C
// would see their beginning only. Wide characters, long double and inheritance are not supported.
//
// # Tags
//
// The tag of a field has the key "dds", and a list of:
//
//	name=x       name of the member in IDL
//	id=n         member id; without it, one more than the id before
//	key          the member belongs to the key
//	bound=n      the most bytes of a string, elements of a sequence or entries of a map
//	must         in a mutable type, must_understand: a reader that does not know the member must refuse the sample
//	optional     for documentation: every pointer is optional
//	char         an uint8 that is a char in IDL
//	switch       in a union: the discriminator, the first field
//	case=1|2     in a union: the values of the discriminator for which this is the member
//	default      in a union: the member for all other values
//	-            the field is no member
//
// The blank field holds what concerns the whole type: final (the default), appendable, mutable,
// union, name=Module::Name.
//
// Of a union, Append writes the discriminator and the one member that it selects. Members of a
// union are values, never pointers.
package cdr
