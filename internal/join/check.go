package join

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/views"
)

// ErrBadView says that this process was told a View that it cannot be a member of.
var ErrBadView = errors.New("unusable view")

// checkView is J5.
func checkView(c JoinerConfig, v *views.View) error {
	if v == nil {
		return fmt.Errorf("%w: it is missing", ErrBadView)
	}
	if err := v.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrBadView, err)
	}
	if v.Cluster != c.Cluster {
		return fmt.Errorf("%w: it is of cluster %q, want %q", ErrBadView, clip(v.Cluster), c.Cluster)
	}
	if rank, ok := v.RankOf(c.Self.ID); !ok || v.Members[rank] != c.Self {
		return fmt.Errorf("%w: its members are %s, without %s as it is", ErrBadView, roster(v.Members), node(c.Self.ID, c.Self.Addr))
	}
	for _, m := range v.Members {
		if err := checkMember(m); err != nil {
			return fmt.Errorf("%w: %w", ErrBadView, err)
		}
	}
	if err := v.Fits(c.Declarations); err != nil {
		return fmt.Errorf("%w: its subgroups differ from the subgroups declared here: %w", ErrBadView, err)
	}
	return nil
}

// checkFirst is J5 for a first view.
func checkFirst(c JoinerConfig, v *views.View) error {
	if err := checkView(c, v); err != nil {
		return err
	}
	if v.ID != firstView || len(v.Members) != c.Expect {
		return fmt.Errorf("%w: view %d with %d members, want view %d with %d", ErrBadView, v.ID, len(v.Members), firstView, c.Expect)
	}
	return nil
}
