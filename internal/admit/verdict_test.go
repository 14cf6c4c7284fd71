package admit_test

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/admit"
)

// TestVerdicts holds the rules against what real servers have said. Each line of the files is a parameter, a value, and
// whether `postgres -c name=value -C data_directory` took it. What Meridian manages is left out: that is refused in
// any case, and so are values that a trap is set for.
func TestVerdicts(t *testing.T) {
	for _, major := range []string{"15", "17"} {
		t.Run(major, func(t *testing.T) {
			file, err := os.Open("testdata/verdicts-" + major + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = file.Close() }()
			lines := 0
			for scanner := bufio.NewScanner(file); scanner.Scan(); lines++ {
				parts := strings.Split(scanner.Text(), "\t")
				database := database(t, "{}")
				database.Spec.Version = major
				// Only the server's own limits are compared, not those of the instance.
				database.Spec.Instances, database.Spec.Resources.Memory = -2, nil
				database.Spec.Storage = v1alpha1.Storage{}
				database.Spec.Parameters = map[string]v1alpha1.Setting{strings.ToLower(parts[0]): v1alpha1.Setting(parts[1])}
				problems := admit.Database(database, nil, admit.Facts{})
				if taken := len(problems) == 0; taken != (parts[2] == "taken") {
					t.Errorf("%s = %q is %s by the server, but not here: %s", parts[0], parts[1], parts[2],
						admit.Message(problems))
				}
			}
			if lines < 500 {
				t.Errorf("only %d verdicts, so this test says little", lines)
			}
		})
	}
}
