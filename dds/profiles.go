package dds

import (
	"fmt"
	"os"
	"strings"

	"github.com/squall-go/squall/dds/qos"
)

// LoadProfiles reads named sets of policies from a file in JSON, as qos.ParseProfiles describes it.
func LoadProfiles(path string) (*qos.Profiles, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("dds: %w", err)
	}
	return qos.ParseProfiles(path, data)
}

// Profile is a profile of a file, with the sets that it has for each entity.
type Profile struct{ Topic, Writer, Reader QoS }

// LoadProfile reads one profile, which is named FILE#PROFILE.
func LoadProfile(name string) (p Profile, err error) {
	i := strings.LastIndexByte(name, '#')
	if i < 0 {
		return p, fmt.Errorf("dds: %w: %q names no profile of the file: use FILE#PROFILE", qos.ErrProfile, name)
	}
	all, err := LoadProfiles(name[:i])
	if err != nil {
		return p, err
	}
	for _, e := range []struct {
		of  qos.Entity
		set *QoS
	}{{qos.Topic, &p.Topic}, {qos.Writer, &p.Writer}, {qos.Reader, &p.Reader}} {
		if *e.set, err = all.Set(name[i+1:], e.of); err != nil {
			return p, err
		}
	}
	return p, nil
}
