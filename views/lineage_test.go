package views

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
)

// descent is a first view and so many that follow it.
func descent(group string, n int) (all []*View) {
	v := &View{ID: 1, Cluster: "c", key: "key 1"}
	v.Bootstrap(group, NewSecret("secret of "+group))
	for all = append(all, v); len(all) < n; all = append(all, v) {
		next := &View{ID: v.ID + 1, Cluster: "c", key: fmt.Sprint("key ", v.ID+1, group)}
		next.Follow(v)
		v = next
	}
	return all
}

func TestEveryViewHasTheIdentityOfItsGroup(t *testing.T) {
	for _, v := range descent("g", 3*maxLinks) {
		if v.Group != "g" || v.Secret != NewSecret("secret of g") {
			t.Errorf("view %d is of group %q", v.ID, v.Group)
		}
		if len(v.Lineage) != linkDigits*min(int(v.ID), maxLinks) || len(v.Lineage) > MaxTextBytes {
			t.Errorf("view %d has a lineage of %d bytes", v.ID, len(v.Lineage))
		}
	}
}

func TestViewsOfOneHistoryAreKin(t *testing.T) {
	all := descent("g", 3*maxLinks)
	for _, a := range all {
		for _, b := range all {
			if !a.Kin(b) {
				t.Errorf("views %d and %d of one group are no kin", a.ID, b.ID)
			}
		}
	}
	old := &View{ID: 7, Cluster: "c", key: "of an earlier format"}
	if !old.Kin(all[3]) || !all[3].Kin(old) {
		t.Error("a view without a group is no kin of a view with one")
	}
}

func TestViewsOfTwoGroupsAreNoKin(t *testing.T) {
	for _, a := range descent("g", 5) {
		for _, b := range descent("h", 5) {
			if a.Kin(b) {
				t.Errorf("view %d of one group and view %d of another one are kin", a.ID, b.ID)
			}
		}
	}
}

// Of two branches of one group only views that are too far apart to tell are taken for kin.
func TestViewsOfTwoBranchesAreNoKin(t *testing.T) {
	trunk := descent("g", 5)
	branch := func(name string) (all []*View) {
		for v := trunk[4]; len(all) < 2*maxLinks; {
			next := &View{ID: v.ID + 1, Cluster: "c", key: fmt.Sprint(name, v.ID+1)}
			next.Follow(v)
			v, all = next, append(all, next)
		}
		return all
	}
	for _, a := range branch("a") {
		for _, b := range branch("b") {
			apart := max(a.ID, b.ID) - min(a.ID, b.ID)
			if kin := a.Kin(b); kin != (apart >= order.ViewID(maxLinks)) {
				t.Errorf("views %d and %d of two branches: kin is %v", a.ID, b.ID, kin)
			}
		}
	}
}

func TestASecretIsInNoJSONAndInNoText(t *testing.T) {
	v := descent("g", 2)[1]
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if shown := string(text) + fmt.Sprintf("%v %+v %#v %s %q %x", *v, *v, *v, v.Secret, v.Secret, v.Secret); strings.Contains(shown, "secret of") {
		t.Errorf("the secret is shown: %s", shown)
	}
	if v.Secret.Reveal() != "secret of g" {
		t.Errorf("the secret is %q", v.Secret.Reveal())
	}
}

func TestOnlyWhoKnowsTheSecretVouches(t *testing.T) {
	secret, text := NewSecret("s"), []byte("text")
	sum := secret.Sum("use", text)
	for name, ok := range map[string]bool{
		"another secret": NewSecret("t").Verify("use", text, sum), "another use": secret.Verify("abuse", text, sum), "another text": secret.Verify("use", []byte("test"), sum),
		"no sum": secret.Verify("use", text, nil), "no secret": Secret{}.Verify("use", text, Secret{}.Sum("use", text)),
	} {
		if ok {
			t.Errorf("%s: vouched for", name)
		}
	}
	if !secret.Verify("use", text, sum) {
		t.Error("its own sum is not believed")
	}
}

// V12
func TestAViewThatDoesNotFollowIsNotProposed(t *testing.T) {
	before := descent("g", 3)[2]
	for name, spoil := range map[string]func(*View){
		"another group":   func(v *View) { v.Group = "h" },
		"no group":        func(v *View) { v.Group, v.Lineage = "", "" },
		"another lineage": func(v *View) { v.Lineage = v.Lineage[1:] + "0" },
		"another key":     func(v *View) { v.key += "'" },
	} {
		next := &View{ID: 4, Cluster: "c", key: "key 4"}
		next.Follow(before)
		if !next.Follows(before) {
			t.Fatal("a view that follows does not")
		}
		if spoil(next); next.Follows(before) {
			t.Errorf("%s: it follows", name)
		}
	}
}

func TestOtherHistoryNamesBothGroups(t *testing.T) {
	err := OtherHistory("10.0.0.1:7000", "MINE", "THEIRS")
	for _, want := range []string{"10.0.0.1:7000", "MINE", "THEIRS", "empty directory"} {
		if !errors.Is(err, ErrOtherHistory) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: it does not name %s", err, want)
		}
	}
}
