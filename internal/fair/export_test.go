package fair

import "runtime"

// Share returns how many of this machine's processors each of so many askers has.
func Share(askers int) int { return share(runtime.GOMAXPROCS(0), askers) }
