"""Whether to wait for executors that were requested and have not registered, and the reason to report.

A driver that has fewer executors than its Deployment wants reports that as the cluster's answer. Too early, it is
wrong: a node that starts for a pod takes minutes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

from millrace.run_folder.driver_records import PENDING_S
from millrace.runtime.agent.kubernetes_pods import Shortage
from millrace.runtime.agent.lead_times import SHORT_S, LeadTimes

LOG = logging.getLogger(__name__)
Look = Callable[[int, int], Shortage | None]
"""Takes the numbers of registered and of wanted executors; None if the cluster manager does not say why some are
missing."""


class MissingExecutors:
    """Follows one driver's requests.

    Args:
        leads: The lead times of its executors.
        look: Asks the cluster manager why executors are missing.
        report: Called with the reason as a sentence if it has changed; an empty text if none is missing any longer.
    """

    def __init__(
        self,
        leads: LeadTimes | None = None,
        look: Look = lambda registered, wanted: None,
        report: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.leads = leads or LeadTimes()
        self._look, self._report = look, report
        self._counted, self._since_s = (-1, -1), 0.0
        self._said = ""

    def update(self, registered: Collection[str], wanted: int, leaving: int) -> bool:
        """Return whether executors are missing that may still come.

        Args:
            registered: Ids of the registered executors.
            wanted: Number of executors that the app wants in the end.
            leaving: How many of the registered ones are about to leave.
        """
        now = time.monotonic()
        self.leads.update(registered, wanted + leaving, now)
        counted = len(registered) - leaving, wanted
        if counted != self._counted:
            self._counted, self._since_s = counted, now
        if counted[0] >= wanted:
            self._say("")
            return False
        waited_s, found = now - self._since_s, self._look(*counted)
        if found is not None:
            self._say(found.sentence)
            return waited_s <= (max(PENDING_S, self.leads.patience_s()) if found.pending else SHORT_S)
        patience_s = self.leads.patience_s()
        waits = SHORT_S < waited_s <= patience_s
        self._say(f"executors of this app have taken up to {self.leads.slowest_s:.0f} s to come." if waits else "")
        return waited_s <= patience_s

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            self._said = sentence
            if sentence:
                LOG.warning("Executors are missing: %s", sentence)
            self._report(sentence)
