package show

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Certificates are the files with this machine's identity, of the flags --tls-cert, --tls-key and
// --tls-ca.
type Certificates struct{ Cert, Key, CA string }

// Declare declares the flags: the certificate is for something, and the authorities are those of
// others.
func (c *Certificates) Declare(f *pflag.FlagSet, purpose, others string) {
	f.StringVar(&c.Cert, "tls-cert", "", "`file` with this machine's certificate"+purpose)
	f.StringVar(&c.Key, "tls-key", "", "`file` with its key")
	f.StringVar(&c.CA, "tls-ca", "", "`file` with the certificates of the authorities that signed the certificates of "+others)
}

// Secret reads the file of --secret-file; without a name there is no secret.
func Secret(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	secret, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--secret-file: %w", err)
	}
	return secret, nil
}

// NoFiles has the shell complete no file names behind flags, and Choices has it complete words.
func NoFiles(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		_ = cmd.RegisterFlagCompletionFunc(f, cobra.NoFileCompletions) // the flag is there
	}
}

// Choices completes the value of a flag.
func Choices(cmd *cobra.Command, flag string, words ...string) {
	all := cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc(flag, all) // the flag is there
}

// Load returns a configuration for both sides of a connection, or nil if no file is given.
func (c Certificates) Load() (*tls.Config, error) {
	switch {
	case c.Cert == "" && c.Key == "" && c.CA == "":
		return nil, nil
	case c.Cert == "" || c.Key == "" || c.CA == "":
		return nil, errors.New("--tls-cert, --tls-key, --tls-ca: give all three or none")
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.Cert, c.Key, err)
	}
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-ca %s: no certificate in it", c.CA)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool}, nil
}
