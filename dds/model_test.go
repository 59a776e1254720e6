package dds_test

import (
	"testing"

	"github.com/squall-go/squall/dds/internal/ddstest"
	"github.com/squall-go/squall/internal/testutil"
)

func TestReadersOfMembersAndClientsSeeTheSame(t *testing.T) {
	ddstest.Agree(t, testutil.Seeds(12, 80))
}
