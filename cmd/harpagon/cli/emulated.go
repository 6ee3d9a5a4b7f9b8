package cli

import "github.com/harpagon/harpagon/wire/oip"

// Emulated says of an answer from a platform that it is made up; empty where networks run.
func Emulated(platform string) string {
	if platform != oip.PlatformEmulated {
		return ""
	}
	return "\nThe answer is emulated: no network has run for some of its modules, or for all\n(harpagon status says which).\n"
}
