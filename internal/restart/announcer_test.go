package restart

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// working is a view of a group that works, of which node 2 is a former member.
func working(members ...views.Member) *views.View {
	v := (&views.View{ID: 7, Cluster: "blue", Members: members}).WithKey("in force")
	v.Bootstrap("first", views.NewSecret("of the first"))
	return v
}

// told are the addresses to which something is said.
func told(sends []Send) (list []string) {
	for _, s := range sends {
		list = append(list, s.To)
	}
	return list
}

func TestTheMostSeniorMemberAnnouncesTheGroupWhereNoMemberIs(t *testing.T) {
	self, junior := views.Member{ID: 1, Addr: "10.0.0.1:2", Incarnation: 9}, views.Member{ID: 3, Addr: "10.0.0.3:1", Incarnation: 3}
	join := []string{"10.0.0.1:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.1:2"}
	former := []Former{{2, "10.0.0.2:1"}, {3, "10.0.0.3:9"}, {4, "10.0.0.4:1"}}
	v := working(self, junior)
	sends := NewAnnouncer("blue", self, join, Times{}).Tick(0, v, former)
	if want := []string{"10.0.0.1:1", "10.0.0.4:1", "10.0.0.2:1"}; !slices.Equal(told(sends), want) {
		t.Errorf("it is announced at %q, not %q", told(sends), want)
	}
	for _, s := range sends {
		m := s.Message
		if m.Verb != Hello || m.From != self || m.Key != "" || m.Next.View != nil || !m.Genuine(v.Secret) || m.check() != nil {
			t.Errorf("what is said is %+v", m)
		}
	}
	if sends := NewAnnouncer("blue", junior, join, Times{}).Tick(0, v, former); len(sends) > 0 {
		t.Errorf("another member announces it, too, at %q", told(sends))
	}
	if sends := NewAnnouncer("blue", self, join, Times{}).Tick(0, nil, former); len(sends) > 0 {
		t.Errorf("a process that is no member any more announces it at %q", told(sends))
	}
}

func TestAnnouncementsBecomeRareAndDoNotEnd(t *testing.T) {
	self := views.Member{ID: 1, Addr: "10.0.0.1:2", Incarnation: 9}
	a := NewAnnouncer("blue", self, []string{"10.0.0.2:1"}, Times{Beat: time.Second})
	var at []time.Duration
	for now := time.Duration(0); now < time.Hour; now = max(now, a.Next()) + time.Millisecond {
		if len(a.Tick(now, working(self), nil)) > 0 {
			at = append(at, now)
		}
	}
	for i := 1; i < len(at); i++ {
		if pause := at[i] - at[i-1]; pause > 65*time.Second || i > 7 && pause < 64*time.Second {
			t.Fatalf("the pause before announcement %d is %v", i+1, pause)
		}
	}
	if n := len(at); n < 60 || n > 64 {
		t.Errorf("%d announcements in an hour", n)
	}
	if sends := a.Tick(a.Next()-1, working(self), nil); len(sends) > 0 {
		t.Error("one comes before it is due")
	}
	var many []Former
	for i := range 3 * maxContacts {
		many = append(many, Former{order.NodeID(i + 2), fmt.Sprintf("10.1.0.1:%d", i+1)})
	}
	if n := len(a.Tick(a.Next(), working(self), many)); n != maxContacts {
		t.Errorf("%d are told at once, not %d", n, maxContacts)
	}
}

// A process that waits at an address that no other process knows asks the member that announces the
// group, and is told the addresses of the members.
func TestAnAnnouncementLeadsToTheGroup(t *testing.T) {
	c := lone(t) // knows node 2 at 10.0.0.2:1
	self := views.Member{ID: 2, Addr: "10.0.0.2:7", Incarnation: 9}
	v := working(self)
	announced := NewAnnouncer("blue", self, []string{"10.0.0.1:1"}, Times{}).Tick(0, v, nil)
	if len(announced) != 1 {
		t.Fatalf("%d announcements", len(announced))
	}
	before := snapshotOf(c)
	e := c.Hear(1, announced[0].Message)
	if !reflect.DeepEqual(before, snapshotOf(c)) {
		t.Errorf("the announcement alone changed %+v into %+v", before, snapshotOf(c))
	}
	if len(e.Sends) != 1 || e.Sends[0].To != self.Addr || e.Sends[0].Message.To != self.Incarnation {
		t.Fatalf("it asks with %+v", e.Sends)
	}
	e = c.Hear(2, Answer("blue", self, v, e.Sends[0].Message))
	if e.Outcome == nil || !slices.Equal(e.Outcome.Running, []string{self.Addr}) {
		t.Errorf("it came to %+v", e.Outcome)
	}
}

func TestAStrangersAnnouncementIsNotAnswered(t *testing.T) {
	self := views.Member{ID: 2, Addr: "10.0.0.2:7", Incarnation: 9}
	for name, found := range map[string]func(*views.View){
		"another group":             func(v *views.View) { v.Bootstrap("second", views.NewSecret("of the second")) },
		"one that lacks the secret": func(v *views.View) { v.Secret = views.NewSecret("guess") },
	} {
		c, v := lone(t), working(self)
		found(v)
		before := snapshotOf(c)
		e := c.Hear(1, NewAnnouncer("blue", self, []string{"10.0.0.1:1"}, Times{}).Tick(0, v, nil)[0].Message)
		if !reflect.DeepEqual(before, snapshotOf(c)) || len(e.Sends) > 0 || e.Outcome != nil {
			t.Errorf("%s: it changed %+v into %+v, with %+v", name, before, snapshotOf(c), e)
		}
	}
}

func TestFormerMembersAreRememberedAndAsked(t *testing.T) {
	disk, self := &testDisk{}, member(1, 5)
	other := func(id uint64) views.Member {
		m := member(id, 6)
		m.Addr = fmt.Sprintf("10.0.1.1:%d", id)
		return m
	}
	m := remembering(t, disk)
	first := viewOf(t, nil, "a", self, other(2), other(3))
	second := viewOf(t, first, "b", self, other(3))
	third := viewOf(t, second, "c", self)
	must(t, m.Begin(self), m.Enter(first, nil), m.Echo(1, 257, second), m.Echo(2, 258, third), m.Installed(third))
	s := remembering(t, disk).State()
	if want := []Former{{2, "10.0.1.1:2"}, {3, "10.0.1.1:3"}}; !slices.Equal(s.Former, want) {
		t.Fatalf("former members are %v, not %v", s.Former, want)
	}
	c := NewCore(CoreConfig{Cluster: "blue", Self: member(1, 7), Logs: func() []LogEnd { return nil }}, s)
	if got, want := c.contacts(), []string{"10.0.1.1:2", "10.0.1.1:3"}; !slices.Equal(got, want) {
		t.Errorf("it says hello at %q, not %q", got, want)
	}
	fourth := viewOf(t, third, "d", self, other(2))
	must(t, m.Installed(fourth))
	if s := m.State(); !slices.Equal(s.Former, []Former{{3, "10.0.1.1:3"}}) {
		t.Errorf("when node 2 is a member again, former members are %v", s.Former)
	}
	many := fourth
	for i := range uint64(2 * maxFormer) {
		next := viewOf(t, many, fmt.Sprint("key", i), self, other(10+i))
		must(t, m.Installed(next))
		many = next
	}
	s = remembering(t, disk).State()
	if n := len(s.Former); n != maxFormer || s.Former[n-1].ID != 10+2*maxFormer-2 {
		t.Errorf("%d former members, the last is node %d", n, s.Former[n-1].ID)
	}
}

// A member with an address that is none, which only a member that breaks the rules can bring into a
// view, spoils nothing when it is gone.
func TestAFormerMemberWithoutAnAddressIsForgotten(t *testing.T) {
	disk, self, odd := &testDisk{}, member(1, 5), member(2, 6)
	odd.Addr = "nowhere"
	m := remembering(t, disk)
	first := viewOf(t, nil, "a", self, odd, member(3, 7))
	second := viewOf(t, first, "b", self)
	must(t, m.Begin(self), m.Enter(first, nil), m.Echo(1, 257, second), m.Installed(second))
	s := remembering(t, disk).State()
	if want := []Former{{3, member(3, 7).Addr}}; !slices.Equal(s.Former, want) {
		t.Errorf("former members are %v, not %v", s.Former, want)
	}
}
