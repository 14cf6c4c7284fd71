package keep

// Idle says that no part of the work goes on.
func (k *Keeper) Idle() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, found := range k.works {
		if found.Running {
			return false
		}
	}
	return true
}
