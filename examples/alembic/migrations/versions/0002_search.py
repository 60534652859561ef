"""Install kbsearch, in its own schema.

kbsearch notes its revision in a table of its own. The revision is named, so that this migration does tomorrow what it does today; a newer
kbsearch gets another migration like this one, whose downgrade() goes back to "0001".
"""

from kbsearch import migrate

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Install."""
    migrate.install_in_revision(revision="0001")


def downgrade() -> None:
    """Remove everything that kbsearch made; the extension vector stays."""
    migrate.remove_in_revision()
