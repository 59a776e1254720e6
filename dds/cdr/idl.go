package cdr

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// IDL returns the declaration of T, and of the types that it is made of, in OMG IDL 4.2: for
// programs in other languages, whose compilers of IDL read it.
func IDL[T any]() (string, error) {
	c, err := New[T]()
	if err != nil {
		return "", err
	}
	w := &idl{done: map[string]reflect.Type{}, within: map[*plan]bool{}}
	if err := w.declare(c.codec.plan); err != nil {
		return "", err
	}
	return w.String(), nil
}

// idl writes declarations, each before its first use.
type idl struct {
	strings.Builder
	done   map[string]reflect.Type // by their names
	within map[*plan]bool          // being declared: another mention is a recursion
}

func (w *idl) declare(p *plan) error {
	switch {
	case p.kind == kindSequence || p.kind == kindArray:
		return w.declare(p.elem)
	case p.kind == kindMap:
		if err := w.declare(p.key); err != nil {
			return err
		}
		return w.declare(p.elem)
	case p.kind != kindStruct && p.kind != kindUnion && p.literals == nil:
		return nil
	case w.within[p]:
		return fmt.Errorf("%w: %v is recursive, which few compilers of IDL support", ErrType, p.goes)
	}
	if t, ok := w.done[p.named]; ok {
		if t != p.goes {
			return fmt.Errorf("%w: %v and %v are both named %s in IDL", ErrType, t, p.goes, p.named)
		}
		return nil
	}
	w.within[p] = true
	for _, m := range p.members {
		if err := w.declare(m.plan); err != nil {
			return err
		}
	}
	delete(w.within, p)
	w.done[p.named] = p.goes
	w.inModules(p)
	return nil
}

// inModules writes the definition of a type in the modules of its name.
func (w *idl) inModules(p *plan) {
	if w.Len() > 0 {
		w.WriteByte('\n')
	}
	modules := strings.Split(p.named, "::")
	for _, m := range modules[:len(modules)-1] {
		fmt.Fprintf(w, "module %s {\n", escaped(m))
	}
	w.definition(p, escaped(modules[len(modules)-1]))
	w.WriteString(strings.Repeat("};\n", len(modules)-1))
}

func (w *idl) definition(p *plan, name string) {
	switch {
	case p.bitmask:
		fmt.Fprintf(w, "@bit_bound(%d)\nbitmask %s {\n", 8*p.width(), name)
		for i, l := range p.literals {
			fmt.Fprintf(w, "  @position(%d) %s%s\n", l.Value, escaped(l.Name), comma(i, len(p.literals)))
		}
	case p.literals != nil:
		if p.width() < 4 {
			fmt.Fprintf(w, "@bit_bound(%d)\n", 8*p.width())
		}
		fmt.Fprintf(w, "enum %s {\n", name)
		for i, l := range p.literals {
			fmt.Fprintf(w, "  @value(%d) %s%s\n", l.Value, escaped(l.Name), comma(i, len(p.literals)))
		}
	case p.kind == kindUnion:
		fmt.Fprintf(w, "@%v\nunion %s switch (%s) {\n", p.extensibility, name, p.members[0].plan.idlType())
		for _, m := range p.members[1:] {
			for _, v := range m.cases {
				fmt.Fprintf(w, "  case %s:\n", p.members[0].plan.idlValue(v))
			}
			if m.other {
				w.WriteString("  default:\n")
			}
			fmt.Fprintf(w, "    %s;\n", m.plan.idlMember(m.name))
		}
	default:
		fmt.Fprintf(w, "@%v\nstruct %s {\n", p.extensibility, name)
		w.members(p)
	}
	w.WriteString("};\n")
}

// members are those of a structure.
func (w *idl) members(p *plan) {
	next := uint32(0)
	for _, m := range p.members {
		w.WriteString("  ")
		if m.id != next {
			fmt.Fprintf(w, "@id(%d) ", m.id)
		}
		next = m.id + 1
		for _, a := range []struct {
			is   bool
			name string
		}{{m.key, "@key "}, {m.optional, "@optional "}, {m.must, "@must_understand "}} {
			if a.is {
				w.WriteString(a.name)
			}
		}
		fmt.Fprintf(w, "%s;\n", m.plan.idlMember(m.name))
	}
}

func comma(i, n int) string {
	if i == n-1 {
		return ""
	}
	return ","
}

// idlMember is a type and the name of a member, behind which the dimensions of an array stand.
func (p *plan) idlMember(name string) string {
	s := p.idlType() + " " + escaped(name)
	for _, n := range p.dims {
		s += "[" + strconv.Itoa(n) + "]"
	}
	return s
}

// scoped is a name with those of its modules.
func scoped(name string) string {
	parts := strings.Split(name, "::")
	for i := range parts {
		parts[i] = escaped(parts[i])
	}
	return strings.Join(parts, "::")
}

func (p *plan) idlType() string {
	bound := ""
	if p.bound > 0 {
		bound = fmt.Sprintf(", %d", p.bound)
	}
	switch {
	case p.named != "":
		return scoped(p.named)
	case p.kind == kindBool:
		return "boolean"
	case p.char:
		return "char"
	case p.float && p.kind == kind32:
		return "float"
	case p.float:
		return "double"
	case p.kind == kind8 && p.signed:
		return "int8"
	case p.kind == kind8:
		return "octet"
	case p.kind == kindString && p.bound > 0:
		return fmt.Sprintf("string<%d>", p.bound)
	case p.kind == kindString:
		return "string"
	case p.kind == kindSequence:
		return "sequence<" + p.elem.idlType() + bound + ">"
	case p.kind == kindArray:
		return p.elem.idlType()
	case p.kind == kindMap:
		return "map<" + p.key.idlType() + ", " + p.elem.idlType() + bound + ">"
	}
	s := map[int]string{2: "short", 4: "long", 8: "long long"}[p.width()]
	if !p.signed {
		return "unsigned " + s
	}
	return s
}

// idlValue is a value of a discriminator.
func (p *plan) idlValue(v int64) string {
	switch {
	case p.kind == kindBool && v != 0:
		return "TRUE"
	case p.kind == kindBool:
		return "FALSE"
	}
	for _, l := range p.literals {
		if l.Value == v {
			return escaped(l.Name)
		}
	}
	return strconv.FormatInt(v, 10)
}

// keywords of IDL, in lower case: identifiers that differ from one in case only are refused by
// compilers.
var keywords = strings.Fields(`abstract alias any attribute bitfield bitmask bitset boolean case char component connector
	const consumes context custom default double emits enum eventtype exception factory false finder fixed float getraises
	getter home import in inout int16 int32 int64 int8 interface local long manages map mirrorport module multiple native object
	octet oneway out port porttype primarykey private provides public publishes raises readonly sequence setraises
	setter short string struct supports switch true truncatable typedef typeid typename typeprefix uint16 uint32 uint64 uint8
	union unsigned uses valuebase valuetype void wchar wstring`)

// escaped puts an underscore before an identifier that is a keyword, which is no part of its name.
func escaped(name string) string {
	if slices.Contains(keywords, strings.ToLower(name)) {
		return "_" + name
	}
	return name
}
