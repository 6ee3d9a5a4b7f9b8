package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/sdk/sdkgrpc"
)

// gatewayAt says where requests go: to gateways that are named, or to the one
// of the system on the state folder.
type gatewayAt struct {
	state     string
	addresses []string
	security  securityFlags
}

// newGatewayAt adds the flags that say where a gateway is.
func newGatewayAt(c *cobra.Command) *gatewayAt {
	g := &gatewayAt{}
	c.Flags().StringVar(&g.state, "state", system.DefaultStateDir, "state `folder` of the running system")
	c.Flags().StringSliceVar(&g.addresses, "gateway", nil, "`address` of a gateway, HOST:PORT or a URL of http, https, grpc or grpcs, instead of the one that the state folder names; several may be given, with commas or by repeating the flag; their token is read from "+tokenVariable)
	g.security.Register(c)
	return g
}

// Dial reaches the gateways: requests go to them in turn, and to another when one is
// gone.
func (g *gatewayAt) Dial(ctx context.Context) (*sdk.Client, error) {
	addresses := g.addresses
	if len(addresses) == 0 {
		e, err := system.Folder(g.state).Endpoints()
		if err != nil {
			return nil, err
		}
		addresses = []string{e.Gateway}
	}
	return sdk.Dialer{Token: os.Getenv(tokenVariable), TLS: g.security.files, Plaintext: g.security.plain, GRPC: sdkgrpc.Connect}.Dial(ctx, addresses...)
}
