//go:build !unix || solaris || aix

package join

import "os"

// lockDir has no lock here: it is up to the operator that no two use a directory.
func lockDir(string) (*os.File, error) { return nil, nil }

func unlockDir(*os.File) error { return nil }

// syncDir has no way to do it here.
func syncDir(string) error { return nil }
