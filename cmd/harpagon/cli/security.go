package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/wire/secure"
)

// tokenVariable holds the secret that gateways and stores ask for. It is no flag,
// because other users of a machine can read the arguments of a process.
const tokenVariable = "HARPAGON_TOKEN"

// securityFlags say with what a process proves itself, and whom it believes.
type securityFlags struct {
	files  secure.Files
	tokens string
	plain  bool
}

// Register adds the flags to a command.
func (f *securityFlags) Register(c *cobra.Command) {
	c.Flags().StringVar(&f.files.Cert, "tls-cert", "", "`file` with the certificate that this process shows, PEM; read again when it changes, like the two others")
	c.Flags().StringVar(&f.files.Key, "tls-key", "", "`file` with its key")
	c.Flags().StringVar(&f.files.CA, "tls-ca", "", "`file` with the certificates of whom to believe; callers of a port may then prove themselves with one of these")
	c.Flags().StringVar(&f.tokens, "tokens", "", "`file` of named tokens that callers of ports may show, with what each is good for; read again when it changes")
	c.Flags().BoolVar(&f.plain, "plaintext", false, "let the token of "+tokenVariable+" travel between hosts without TLS, on a network that is trusted")
}

// Credentials are what the flags and the environment say.
func (f *securityFlags) Credentials() (secure.Credentials, error) {
	identity, err := secure.Load(f.files)
	if err != nil {
		return secure.Credentials{}, err
	}
	tokens, err := secure.LoadTokens(f.tokens)
	return secure.Credentials{Token: os.Getenv(tokenVariable), Tokens: tokens, Identity: identity, Plain: f.plain}, err
}

// Files are those that the flags name.
func (f *securityFlags) Files() secure.Files { return f.files }
