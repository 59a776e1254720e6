package space

import (
	"math/rand/v2"
	"testing"
)

func TestZZ(t *testing.T) { followAlong(t, rand.New(rand.NewPCG(0xb92769e4039c51f8, 0)), true) }
