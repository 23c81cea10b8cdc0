import sys

from mhasweep_analysis.report import main

sys.exit(main())
