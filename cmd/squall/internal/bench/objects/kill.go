package objects

import "context"

func (s spec) measureKills(ctx context.Context, kills int) (run, error) { return run{}, nil }
