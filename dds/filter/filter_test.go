package filter

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/squall-go/squall/dds/cdr"
)

type color int32

func (color) EnumLiterals() []cdr.Literal {
	return []cdr.Literal{{Name: "RED", Value: 0}, {Name: "BLUE", Value: 5}}
}

type owner struct {
	Name string
	Age  *int16
}

type shape struct {
	Color    color `dds:"key"`
	Label    string
	Size     int32 `dds:"name=shapesize"`
	Serial   uint64
	X        float64
	Hidden   bool
	Owner    owner
	Patron   *owner
	Path     []int32
	Grade    uint8 `dds:"char"`
	Rank     *int64
	Internal int `dds:"-"`
	other    int
}

func sample() shape {
	age := int16(40)
	return shape{
		Color: 5, Label: "it's a box", Size: -3, Serial: math.MaxUint64, X: 2.5, Hidden: true, Owner: owner{"Ada", &age}, Grade: 'b', Rank: new(int64(1<<53 + 1)), other: 1,
	}
}

func TestExpressionsHoldOrNot(t *testing.T) {
	params := []string{"10", "'box'", "BLUE", "it's a box", "-3", "b"}
	for expression, want := range map[string]bool{
		"shapesize = -3":                         true,
		"-3 = shapesize":                         true,
		"shapesize <> -3":                        false,
		"shapesize != 4":                         true,
		"0 > shapesize":                          true,
		"0 < shapesize":                          false,
		"shapesize < 0x10":                       true,
		"shapesize <= -3 and shapesize >= -3":    true,
		"shapesize > 5 OR x > 2":                 true,
		"shapesize < %0":                         true,
		"shapesize = %4":                         true,
		"serial = 18446744073709551615":          true,
		"serial > 9223372036854775807":           true,
		"serial > shapesize":                     true,
		"x = 2.5":                                true,
		"x > 25e-1":                              false,
		"x BETWEEN 2 AND 3":                      true,
		"x NOT BETWEEN 2 AND 3":                  false,
		"shapesize between -4 and %4":            true,
		"color = 'BLUE'":                         true,
		"color = %2":                             true,
		"color = 5":                              true,
		"color > 'RED'":                          true,
		"label = 'it''s a box'":                  true,
		"label = %3":                             true,
		"label LIKE '%box'":                      true,
		"label LIKE 'it_s%b%'":                   true,
		"label LIKE 'box'":                       false,
		"label LIKE '%%'":                        true,
		"label > %1":                             true,
		"hidden = TRUE":                          true,
		"hidden <> true":                         false,
		"owner.name = 'Ada' AND owner.age = 40":  true,
		"patron.name = 'Ada'":                    false,
		"NOT patron.name = 'Ada'":                true,
		"patron.age = 40 OR NOT patron.age = 40": true,
		"NOT x = 2.5 AND x = 1 OR x = 2.5":       true,
		"x = 2.5 OR x = 1 AND x = 0":             true,
		"(x = 2.5 OR x = 1) AND x = 0":           false,
		"NOT (x = 1 OR (x = 0))":                 true,
		"\tLabel\n=\r'it''s a box'":              true,
		"owner.name = label":                     false,
		"owner.name LIKE owner.name":             true,
		"label LIKE owner.name":                  false,
		"grade = 'b'":                            true,
		"'c' > grade":                            true,
		"grade BETWEEN 'a' AND %5":               true,
		"grade = 98":                             true,
		"rank = 9007199254740993":                true,
		"rank = 9007199254740992.0":              false,
		"rank > 9007199254740992.0":              true,
		"9007199254740994.0 > rank":              true,
		"serial < 18446744073709551616.0":        true,
		"serial > 18446744073709549568.0":        true,
		"serial > 9223372036854775808.0":         true,
		"serial > -1e300":                        true,
		"shapesize > -3.5":                       true,
		"patron.age NOT BETWEEN 1 AND 2":         false,
		"shapesize < -2.5":                       true,
		"shapesize = -3.0":                       true,
		"shapesize > -1e19 AND shapesize < 1e19": true,
	} {
		e, err := Parse(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		v := sample()
		f, err := Bind[shape](e, params...)
		if err != nil || f(&v) != want {
			t.Errorf("%s (%v): not %v, %v", expression, e, want, err)
		}
		again, err := Parse(e.String())
		if err != nil || again.String() != e.String() {
			t.Errorf("%s is printed as %v: %v", expression, e, err)
		}
	}
}

func TestANumberThatIsNoneIsUnequalToAll(t *testing.T) {
	v := sample()
	v.X = math.NaN()
	for expression, want := range map[string]bool{"x = 1": false, "x <> 1": true, "x < 1": false, "x >= 1": false, "x BETWEEN 0 AND 1": false} {
		e, err := Parse(expression)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := Bind[shape](e); err != nil || f(&v) != want {
			t.Errorf("%s: not %v, %v", expression, want, err)
		}
	}
}

func TestWhatIsNoExpressionIsRefused(t *testing.T) {
	deep := strings.Repeat("(", 200) + "x = 1" + strings.Repeat(")", 200)
	for _, expression := range []string{
		"", "x", "x =", "= 1", "x = 1 AND", "x = 1 x = 2", "(x = 1", "x = 1)", "NOT", "x NOT = 1", "x BETWEEN 1", "x BETWEEN 1 AND", "x BETWEEN 1 OR 2", "x BETWEEN x AND 2",
		"1 BETWEEN 0 AND 2", "1 = 1", "x = 'a", "x = 1.2.3", "x = 1e999", "x = 99999999999999999999", "x = -9223372036854775809", "x = %", "x = %100", "x = %-1", "x ! 1", "x = 1_0", "x ; 1",
		"AND = 1", "x = \xff", deep, strings.Repeat("NOT ", 200) + "x = 1", "x = 1" + strings.Repeat(" OR x = 1", 200), strings.Repeat(" ", 1<<17),
	} {
		if e, err := Parse(expression); !errors.Is(err, ErrSyntax) {
			t.Errorf("%.40q is parsed as %v: %v", expression, e, err)
		}
	}
}

func TestWhatDoesNotSuitTheTypeIsRefused(t *testing.T) {
	for _, expression := range []string{
		"weight = 1", "owner.weight = 1", "label.size = 1", "path = 1", "owner = 1", "internal = 1", "other = 1", "size = 1", "label = 1", "x = 'a'", "x LIKE '%'", "hidden = 1", "hidden > TRUE",
		"hidden BETWEEN FALSE AND TRUE", "color = 'GREEN'", "label BETWEEN 1 AND 2", "label BETWEEN 'a' AND 2", "x = %0", "x = %1", "x = %2", "x = 1 AND weight = 1", "NOT weight = 1",
		"grade = 'bc'", "grade = ''", "grade = 'ä'", "grade LIKE 'b'", "label = grade", "label LIKE '%" + strings.Repeat("a", 64) + "_%'",
	} {
		e, err := Parse(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if _, err := Bind[shape](e, "a text", "%1"); !errors.Is(err, ErrType) {
			t.Errorf("%s is bound: %v", expression, err)
		}
	}
	e, err := Parse("x = 1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Bind[[]byte](e); !errors.Is(err, ErrType) {
		t.Errorf("bound to bytes: %v", err)
	}
}

func TestEvaluationAllocatesNothing(t *testing.T) {
	e, err := Parse("color = 'BLUE' AND label LIKE 'it%_%b_x' AND owner.age BETWEEN 1 AND 50 AND x > shapesize")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Bind[shape](e)
	if err != nil {
		t.Fatal(err)
	}
	v := sample()
	if n := testing.AllocsPerRun(100, func() {
		if !f(&v) {
			t.Fatal("it does not hold")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// What is parsed can be printed and parsed again, and bound and evaluated if it suits the type.
func FuzzExpressions(f *testing.F) {
	for _, s := range []string{"x = 1", "NOT (color = 'RED' OR label LIKE '%a_') AND x NOT BETWEEN %0 AND 1.5e3", "patron.age <> -0x7f", "hidden = FALSE", "serial >= 18446744073709551615"} {
		f.Add(s, "1")
	}
	f.Fuzz(func(t *testing.T, expression, param string) {
		e, err := Parse(expression)
		if err != nil {
			return
		}
		again, err := Parse(e.String())
		if err == nil && again.String() != e.String() {
			t.Fatalf("%q is printed as %s and parsed as %s", expression, e, again)
		}
		if err != nil && !strings.Contains(err.Error(), "conditions within") && len(e.String()) <= maxBytes { // brackets that were not there make it deeper
			t.Fatalf("%q is printed as %s: %v", expression, e, err)
		}
		if hold, err := Bind[shape](e, param); err == nil {
			v := sample()
			hold(&v)
			hold(new(shape))
		}
	})
}
