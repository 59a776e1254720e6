package objects

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// What JSON has no notation for is an object with these keys alone.
const (
	bytesKey = "$bytes" // a byte string, in base64
	tagKey   = "$tag"   // the number of a tag
	valueKey = "$value" // what is tagged
)

// The modes of package replicated, for values without types.
var (
	encoding = must(cbor.CoreDetEncOptions().EncMode())
	decoding = must(cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxArrayElements: 1 << 24, MaxMapPairs: 1 << 24, MapKeyByteString: cbor.MapKeyByteStringAllowed,
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fromJSON converts a JSON text into CBOR.
func fromJSON(text string) ([]byte, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%s is not JSON, in which a text is in double quotes: %w", show.Argument(text), err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is more than one JSON value", show.Argument(text))
	}
	v, err := plain(v)
	if err != nil {
		return nil, err
	}
	return encoding.Marshal(v)
}

// plain returns the value that is encoded for one that was read from JSON.
func plain(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		return number(v.String())
	case []any:
		for i := range v {
			if v[i], err = plain(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if text, ok := v[bytesKey].(string); ok && len(v) == 1 {
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", bytesKey, err)
			}
			return data, nil
		}
		if n, ok := v[tagKey].(json.Number); ok && len(v) == 2 {
			if content, ok := v[valueKey]; ok {
				tag, err := strconv.ParseUint(n.String(), 10, 64)
				if err != nil {
					return nil, fmt.Errorf("%q: %w", tagKey, err)
				}
				content, err := plain(content)
				return cbor.Tag{Number: tag, Content: content}, err
			}
		}
		for k := range v {
			if v[k], err = plain(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// number returns an integer for a number without a fraction and an exponent, of any size.
func number(text string) (any, error) {
	if n, ok := new(big.Int).SetString(text, 10); ok {
		if n.IsInt64() {
			return n.Int64(), nil
		}
		return n, nil // as an unsigned integer where that is enough
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err
}

// toJSON converts CBOR into a JSON text, with a new line at its end.
func toJSON(data []byte) ([]byte, error) {
	var v any
	if err := decoding.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	v, err := printable(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(v)
	return b.Bytes(), err
}

// printable returns the value that JSON has for one that was decoded.
func printable(v any) (_ any, err error) {
	switch v := v.(type) {
	case []byte:
		return map[string]any{bytesKey: base64.StdEncoding.EncodeToString(v)}, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64), nil
		}
	case big.Int:
		return json.Number(v.String()), nil
	case cbor.SimpleValue:
		return uint8(v), nil
	case cbor.Tag:
		content, err := printable(v.Content)
		return map[string]any{tagKey: v.Number, valueKey: content}, err
	case []any:
		for i := range v {
			if v[i], err = printable(v[i]); err != nil {
				return nil, err
			}
		}
	case map[any]any:
		return printableMap(v)
	}
	return v, nil
}

func printableMap(of map[any]any) (_ any, err error) {
	all := make(map[string]any, len(of))
	for k, value := range of {
		name := fmt.Sprint(k)
		if b, ok := k.(cbor.ByteString); ok {
			name = base64.StdEncoding.EncodeToString([]byte(b))
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("two keys of a map are %q in JSON", name)
		}
		if all[name], err = printable(value); err != nil {
			return nil, err
		}
	}
	return all, nil
}
