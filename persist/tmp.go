package persist

import "errors"

func openLog(s *Store, dir string, c LogConfig) (*Log, error) {
	return nil, errors.New("no logs yet")
}

func (l *Log) close() error { return nil }
